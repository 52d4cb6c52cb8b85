"""Install the Debian packages that the local cluster and its images need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cluster.command import run
from cluster.settings import ClusterError

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
"""Packages, and a program or file that is there if the package is installed."""
FOR_IMAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=600")
"""Waits for another apt-get of this machine instead of failing on its lock."""


def install(wanted: dict[str, str] | None = None) -> None:
    """Install missing packages. Raises ClusterError naming them unless run by root on Debian."""
    missing = [name for name, sign in (wanted or PACKAGES).items() if not is_installed(sign)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ClusterError(f"these Debian packages are missing: {' '.join(missing)}")
    print(f"Installing {' '.join(missing)} ...", flush=True)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(*APT, "update", "-qq", env=quiet, seconds=900)
    run(
        *APT, "install", "-y", "-qq", "--no-install-recommends", *missing,
        env=quiet, seconds=1500,
    )  # fmt: skip


def is_installed(sign: str) -> bool:
    folders = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return Path(sign).is_file() or shutil.which(sign, path=folders) is not None
