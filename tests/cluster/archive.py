"""OCI images of a few files each, written without a build tool; and images handed over."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from command import ctr
from place import STATE

REGISTRY = "docker.io/local"
"""Names must be fully qualified, or the kubelet's runtime tries to pull them."""
ACCOUNTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\n",
}
OCI = "application/vnd.oci.image"
MANIFEST = f"{OCI}.manifest.v1+json"


def image(name: str) -> str:
    """The tag is not `latest`: that would mean imagePullPolicy Always."""
    return f"{REGISTRY}/{name}:1"


def load(
    name: str, files: Mapping[str, Path], links: Mapping[str, str] | None = None, user: str = ""
) -> None:
    """Make an image whose entry point is the first file, and hand it to containerd."""
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
        head(tar, descriptor(MANIFEST, manifest), name)
        for blob in (content, config, manifest):
            add(tar, place_of(digest(blob)), blob)


def head(tar: tarfile.TarFile, manifest: dict[str, object], name: str) -> None:
    """What an archive of one image begins with; containerd calls the image by `name`."""
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


def place_of(digest: str) -> str:
    """Of a blob in a layout."""
    return "blobs/" + digest.replace(":", "/")


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()
