"""Build the images from the Dockerfile and hand them to the cluster: python tests/cluster/images.py

Without Docker and without a registry: buildah on a base that debootstrap makes. What has not
changed is neither built nor loaded again; of what has, only the layers that the cluster lacks are.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import archive
import debian
from command import run, works
from layout import Layout
from place import BUILD, REPOSITORY, STATE, ClusterError

TARGETS = ("operator", "envs", "stage")
FOLDERS = ("operator", "pipelines", "components", "envs", "requirements")
FILES = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")
BASE = "localhost/agentrl-base:1"
ROOT = BUILD / "images"
LAYOUT = Layout(ROOT / "layout")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LONGEST_S = 1800


@dataclass(frozen=True, slots=True)
class Image:
    """One target of the Dockerfile."""

    target: str

    @property
    def name(self) -> str:
        """Fully qualified, or the kubelet tries to pull it; not `latest`, or it always does."""
        return f"{archive.REGISTRY}/agentrl-{self.target}:dev"

    @property
    def note(self) -> Path:
        """From which inputs it was built."""
        return ROOT / f"{self.target}.inputs"

    @property
    def loaded(self) -> Path:
        """Which manifest the running cluster has."""
        return STATE / "images" / f"{self.target}.digest"


def main(targets: tuple[str, ...]) -> None:
    debian.install(debian.FOR_IMAGES)
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would take each other's layers away
        wanted = inputs()
        for image in map(Image, targets):
            make(image, wanted)


def make(image: Image, wanted: str) -> None:
    built = image.note.read_text() if image.note.exists() else None
    if built != wanted or LAYOUT.digest(image.target) is None:
        timed(f"build {image.name}", partial(build, image))
        timed(f"push {image.name}", partial(LAYOUT.push, image.name, image.target))
        image.note.write_text(wanted)
    if (STATE / "up").exists():
        load(image)
    else:
        print(f"No cluster is up to load {image.name} into: this command does it once one is.")


def timed(what: str, step: Callable[[], object]) -> None:
    began = time.monotonic()
    step()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)


def inputs() -> str:
    """A hash of everything that the images are made from."""
    content = hashlib.sha256(BASE.encode())
    for path in sorted(sources()):
        content.update(f"{path.relative_to(REPOSITORY)}\0".encode() + path.read_bytes())
    return content.hexdigest()


def sources() -> Iterator[Path]:
    yield from (REPOSITORY / name for name in FILES)
    for folder in FOLDERS:
        for path in (REPOSITORY / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def base() -> None:
    """Debian with its own Python 3.11, where the Dockerfile's default base cannot be pulled."""
    if works("buildah", "inspect", "--type", "image", BASE):
        return
    folder = ROOT / "base"
    shutil.rmtree(folder, ignore_errors=True)
    run(
        "debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates",
        "bookworm", folder, seconds=LONGEST_S,
    )  # fmt: skip
    for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(folder / waste, ignore_errors=True)
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", container, folder, "/", seconds=300)
    run("buildah", "commit", "--rm", container, BASE, seconds=300)
    shutil.rmtree(folder)


def build(image: Image) -> None:
    """With this machine's certificates and its cache of wheels: mounted, so none of it stays."""
    base()
    wheels = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache/uv")
    wheels.mkdir(parents=True, exist_ok=True)
    volumes = [f"{wheels}:/mnt/wheels"]
    arguments = [f"BASE={BASE}", "CUDA=no", "UV_CACHE_DIR=/mnt/wheels"]
    if CERTIFICATES.exists():
        volumes.append(f"{CERTIFICATES}:{CERTIFICATES}:ro")
        arguments.append(f"PIP_CERT={CERTIFICATES}")
    run(
        "buildah", "bud", "--layers", "--isolation", "chroot", "--network", "host",
        *(word for volume in volumes for word in ("--volume", volume)),
        *(word for argument in arguments for word in ("--build-arg", argument)),
        "--target", image.target, "--tag", image.name, REPOSITORY,
        seconds=LONGEST_S,
    )  # fmt: skip


def load(image: Image) -> None:
    wanted = LAYOUT.digest(image.target)
    if wanted is None:
        raise ClusterError(f"{image.name} was not built")
    if image.loaded.exists() and image.loaded.read_text() == wanted:
        print(f"{image.name} is there already")
        return
    timed(f"load {image.name}", partial(LAYOUT.load, wanted, image.name))
    image.loaded.write_text(wanted)


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(TARGETS)
    if unknown:
        sys.exit(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    try:
        main(tuple(sys.argv[1:]) or TARGETS)
    except ClusterError as error:
        sys.exit(f"images: {error}")
