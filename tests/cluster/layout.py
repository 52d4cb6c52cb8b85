"""The OCI layout that buildah pushes to, and what of it a cluster has already.

The same layer compresses to the same bytes, so what a digest names is never loaded twice.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import archive
from command import ctr, run
from place import STATE, ClusterError

REF = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True)
class Layout:
    """A folder of images, each by a short tag."""

    folder: Path

    def push(self, image: str, tag: str) -> None:
        """Copy an image of buildah's here, and forget the one that had its tag."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = f"oci:{self.folder}:{tag}"
        run("buildah", "push", "--quiet", image, target, seconds=900)
        self.prune()

    def digest(self, tag: str) -> str | None:
        """Of the manifest behind a tag."""
        for manifest in self.index()["manifests"]:
            if manifest.get("annotations", {}).get(REF) == tag:
                return str(manifest["digest"])
        return None

    def load(self, manifest: str, name: str) -> None:
        """Hand an image to containerd, without the layers that it has."""
        try:
            self.hand_over(manifest, name, known=set(ctr("content", "ls", "-q").split()))
        except ClusterError:
            # containerd may collect, meanwhile, a layer that belonged to no image any more
            self.hand_over(manifest, name, known=set())

    def hand_over(self, manifest: str, name: str, known: set[str]) -> None:
        described = archive.descriptor(archive.MANIFEST, self.blob(manifest).read_bytes())
        path = STATE / "images" / "part.tar"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w") as tar:
            archive.head(tar, described, name)
            for digest in self.parts(manifest):
                if digest not in known or digest == manifest:
                    tar.add(self.blob(digest), archive.place_of(digest))
        ctr("images", "import", path)
        path.unlink()

    def prune(self) -> None:
        """Remove images without a tag, and blobs of no image: else every push would add to them."""
        index = self.index()
        index["manifests"] = [one for one in index["manifests"] if "annotations" in one]
        (self.folder / "index.json").write_text(json.dumps(index))
        kept = {part for one in index["manifests"] for part in self.parts(one["digest"])}
        for path in (self.folder / "blobs/sha256").iterdir():
            if f"sha256:{path.name}" not in kept:
                path.unlink()

    def parts(self, manifest: str) -> list[str]:
        """The digests of all that an image consists of, its manifest among them."""
        described = json.loads(self.blob(manifest).read_bytes())
        return [manifest, *(part["digest"] for part in (described["config"], *described["layers"]))]

    def blob(self, digest: str) -> Path:
        return self.folder / archive.place_of(digest)

    def index(self) -> dict[str, Any]:
        path = self.folder / "index.json"
        return dict(json.loads(path.read_text())) if path.exists() else {"manifests": []}
