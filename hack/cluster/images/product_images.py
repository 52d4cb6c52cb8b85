"""Build the AgentRL images from the Dockerfile and load them into the local cluster.

Needs neither Docker nor a registry: buildah builds on a base image from debootstrap. Unchanged
images are neither built nor loaded again; of changed images only missing layers are loaded.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cluster.command import run, works
from cluster.images import oci_archive
from cluster.images.oci_layout import Layout
from cluster.programs import debian
from cluster.settings import BUILD, CACHE, REPOSITORY, STATE, ClusterError

TARGETS = ("operator", "envs", "stage", "envs-web")
ON_REQUEST = ("envs-science",)
"""Targets that are built only when they are named: no test on the cluster needs them."""
FOLDERS = ("operator", "pipelines", "components", "envs", "requirements")
FILES = ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE")
BASE = "localhost/agentrl-base:1"
ROOT = BUILD / "images"
LAYOUT = Layout(ROOT / "layout")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BUILD_S = 1800


@dataclass(frozen=True, slots=True)
class Image:
    """One target of the Dockerfile."""

    target: str

    @property
    def name(self) -> str:
        """With a registry, and with a tag other than `latest`: otherwise the kubelet pulls it."""
        return f"{oci_archive.REGISTRY}/agentrl-{self.target}:dev"

    @property
    def note(self) -> Path:
        """File with the hash of the inputs that the image was built from."""
        return ROOT / f"{self.target}.inputs"

    @property
    def loaded(self) -> Path:
        """File with the digest of the manifest that the running cluster has."""
        return STATE / "images" / f"{self.target}.digest"


def build_and_load(targets: Sequence[str]) -> None:
    """Build the targets that changed; load them if the cluster is running.

    Raises ClusterError for an unknown target.
    """
    known = (*TARGETS, *ON_REQUEST)
    if unknown := set(targets) - set(known):
        raise ClusterError(f"no target {', '.join(unknown)}; known: {', '.join(known)}")
    debian.install(debian.FOR_IMAGES)
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two builds at once would prune each other's layers
        wanted = inputs()
        for image in map(Image, targets):
            make_image(image, wanted)


def make_image(image: Image, wanted: str) -> None:
    built = image.note.read_text() if image.note.exists() else None
    if built != wanted or LAYOUT.digest(image.target) is None:
        timed(f"build {image.name}", partial(build, image))
        timed(f"push {image.name}", partial(LAYOUT.push, image.name, image.target))
        image.note.write_text(wanted)
    if (STATE / "up").exists():
        load(image)
    else:
        print(f"{image.name} is built, not loaded: no cluster is running.")


def timed(what: str, step: Callable[[], object]) -> None:
    began = time.monotonic()
    step()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)


def inputs() -> str:
    """Hash of everything that the images are made from."""
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


def build_base() -> None:
    """Debian with its own Python 3.11, in place of the Dockerfile's base from a registry."""
    if works("buildah", "inspect", "--type", "image", BASE):
        return
    folder = ROOT / "base"
    shutil.rmtree(folder, ignore_errors=True)
    run(
        "debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates",
        "bookworm", folder, seconds=BUILD_S,
    )  # fmt: skip
    for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(folder / waste, ignore_errors=True)
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", container, folder, "/", seconds=300)
    run("buildah", "commit", "--rm", container, BASE, seconds=300)
    shutil.rmtree(folder)


def build(image: Image) -> None:
    """Build with this machine's certificates and wheel cache mounted, so that no layer has them."""
    build_base()
    wheels = Path(os.environ.get("UV_CACHE_DIR") or CACHE.parent / "uv")
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
        seconds=BUILD_S,
    )  # fmt: skip


def load(image: Image) -> None:
    wanted = LAYOUT.digest(image.target)
    if wanted is None:
        raise ClusterError(f"{image.name} is not built")
    if image.loaded.exists() and image.loaded.read_text() == wanted:
        print(f"{image.name} is loaded already")
        return
    timed(f"load {image.name}", partial(LAYOUT.load, wanted, image.name))
    image.loaded.write_text(wanted)
