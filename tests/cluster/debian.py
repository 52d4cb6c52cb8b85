"""The Debian packages that the cluster and its images need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from command import run
from place import ClusterError

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "nftables": "nft",
    "iproute2": "ip",
    "openssl": "openssl",
    "mariadb-server": "mariadbd",
    "busybox-static": "/bin/busybox",
    "gcc": "gcc",
    "libc6-dev": "/usr/include/features.h",
}
"""By what shows that one is there."""
FOR_IMAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}


def install(wanted: dict[str, str] | None = None) -> None:
    """Install what is missing, as root; elsewhere, say what to install."""
    missing = [name for name, sign in (wanted or PACKAGES).items() if not there(sign)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ClusterError(f"these Debian packages are missing: {' '.join(missing)}")
    print(f"Installing {' '.join(missing)} ...", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", env=quiet, seconds=300)
    run(
        "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing,
        env=quiet, seconds=900,
    )  # fmt: skip


def there(sign: str) -> bool:
    folders = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return Path(sign).is_file() or shutil.which(sign, path=folders) is not None
