"""The OCI layout that buildah pushes to; loads only the layers that the cluster lacks.

Equal layers compress to equal bytes and have equal digests, so no layer is loaded twice.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.command import ctr, run
from cluster.images import oci_archive
from cluster.settings import STATE, ClusterError

REF = "org.opencontainers.image.ref.name"
COMPRESSION = ("--compression-format", "zstd", "--compression-level", "1")
"""A third less CPU time than gzip, the default, for the 2 GB of the largest image."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A folder with images, each under a short tag."""

    folder: Path

    def push(self, image: str, tag: str) -> None:
        """Copy an image from buildah to this folder, replacing the image with that tag."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = f"oci:{self.folder}:{tag}"
        run("buildah", "push", "--quiet", *COMPRESSION, image, target, seconds=900)
        self.prune()

    def digest(self, tag: str) -> str | None:
        """Digest of the manifest with that tag; None if there is none."""
        for manifest in self.index()["manifests"]:
            if manifest.get("annotations", {}).get(REF) == tag:
                return str(manifest["digest"])
        return None

    def load(self, manifest: str, name: str) -> None:
        """Load an image into containerd, without the layers that containerd has."""
        try:
            self._import(manifest, name, known=set(ctr("content", "ls", "-q").split()))
        except ClusterError:
            # containerd may have collected a layer meanwhile that belonged to no image any more
            self._import(manifest, name, known=set())

    def _import(self, manifest: str, name: str, known: set[str]) -> None:
        described = oci_archive.descriptor(oci_archive.MANIFEST, self.blob(manifest).read_bytes())
        path = STATE / "images" / "part.tar"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w") as tar:
            oci_archive.add_index(tar, described, name)
            for digest in self.parts(manifest):
                if digest not in known or digest == manifest:
                    tar.add(self.blob(digest), oci_archive.blob_path(digest))
        ctr("images", "import", path)
        path.unlink()

    def prune(self) -> None:
        """Remove images without a tag and blobs without an image, which every push leaves."""
        index = self.index()
        index["manifests"] = [one for one in index["manifests"] if "annotations" in one]
        (self.folder / "index.json").write_text(json.dumps(index))
        kept = {part for one in index["manifests"] for part in self.parts(one["digest"])}
        for path in (self.folder / "blobs/sha256").iterdir():
            if f"sha256:{path.name}" not in kept:
                path.unlink()

    def parts(self, manifest: str) -> list[str]:
        """Digests of the manifest, the configuration and the layers of an image."""
        described = json.loads(self.blob(manifest).read_bytes())
        return [manifest, *(part["digest"] for part in (described["config"], *described["layers"]))]

    def blob(self, digest: str) -> Path:
        return self.folder / oci_archive.blob_path(digest)

    def index(self) -> dict[str, Any]:
        path = self.folder / "index.json"
        return dict(json.loads(path.read_text())) if path.exists() else {"manifests": []}
