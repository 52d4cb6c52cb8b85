"""Write OCI image archives of a few files each without a build tool, and load them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cluster.command import ctr
from cluster.settings import STATE

REGISTRY = "docker.io/local"
"""Registry in the names of local images: containerd tries to pull names without one."""
ACCOUNTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\n",
}
OCI = "application/vnd.oci.image"
MANIFEST = f"{OCI}.manifest.v1+json"


def image(name: str) -> str:
    """Full name of a local image. Its tag is not `latest`, which implies imagePullPolicy Always."""
    return f"{REGISTRY}/{name}:1"


def load(
    name: str, files: Mapping[str, Path], links: Mapping[str, str] | None = None, user: str = ""
) -> None:
    """Load an image whose entry point is the first file into containerd.

    `files` maps paths in the image to files of this machine, `links` symbolic links to targets.
    """
    path = STATE / "images" / f"{name}.tar"
    path.parent.mkdir(exist_ok=True)
    write(path, image(name), files, links or {}, user)
    ctr("images", "import", path)
    path.unlink()


def write(
    path: Path, name: str, files: Mapping[str, Path], links: Mapping[str, str], user: str = ""
) -> None:
    content = layer(files, links)
    config = as_json({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/" + next(iter(files))], "Env": ["PATH=/usr/bin:/bin"], "User": user,
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(content)]},
    })  # fmt: skip
    manifest = as_json({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(f"{OCI}.config.v1+json", config),
        "layers": [descriptor(f"{OCI}.layer.v1.tar", content)],
    })  # fmt: skip
    with tarfile.open(path, "w") as tar:
        add_index(tar, descriptor(MANIFEST, manifest), name)
        for blob in (content, config, manifest):
            add(tar, blob_path(digest(blob)), blob)


def add_index(tar: tarfile.TarFile, manifest: dict[str, object], name: str) -> None:
    """Begin an archive of one image, which containerd will call `name`."""
    naming = {"io.containerd.image.name": name}
    add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    index = {"schemaVersion": 2, "manifests": [manifest | {"annotations": naming}]}
    add(tar, "index.json", as_json(index))


def layer(files: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for folder in ("tmp", "etc", "var", "run", "root", "bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for target, source in files.items():
            tar.add(source.resolve(), target)
        for link, target in links.items():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, text in ACCOUNTS.items():
            add(tar, name, text.encode())
    return held.getvalue()


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def blob_path(digest: str) -> str:
    """Path of a blob in an OCI layout."""
    return "blobs/" + digest.replace(":", "/")


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()
