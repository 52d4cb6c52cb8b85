"""Volumes of the run with a Ray cluster, on folders of this machine: a claim with its model, and
volumes of a StorageClass for the temporary files of its pods, which no provisioner serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from installed import Installed

from agentrl_components.model.sources import fetch_model
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.run.worker_group import all_words
from agentrl_components.spec import parse

STORAGE_CLASS = "ray-files"
MODELS = "ray-models"
MOUNTED = "/models"
FILES = 24
"""Volumes for temporary files. A pod takes one, and one that was used is not given to another."""


@contextmanager
def ray_volumes(installed: Installed, manifest: dict[str, Any]) -> Iterator[None]:
    """The volumes while the run exists; `manifest` is that of the run with a tiny model."""
    with TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        _write_model(manifest, models / "tiny")
        objects = [*_objects(models, Path(folder))]
        for one in (models, *(Path(folder) / str(n) for n in range(FILES))):
            one.mkdir(exist_ok=True)
            one.chmod(0o777)  # a folder of the machine does not get the group of the pod
        Path(folder).chmod(0o755)
        text = yaml.safe_dump_all(objects)
        installed.kubectl("apply", "-f", "-", stdin=text)
        try:
            yield
        finally:
            # A claim is in use as long as there is a pod that mounts it, also one that has ended.
            run = f"agentrl.dev/run={manifest['metadata']['name']}"
            installed.kubectl("delete", "pods", "-l", run, "--timeout=120s")
            installed.kubectl("delete", "-f", "-", "--timeout=120s", stdin=text)


def _write_model(manifest: dict[str, Any], folder: Path) -> None:
    """Write the model with random weights that a run of `manifest` would make."""
    spec = parse(manifest).spec

    async def words() -> list[str]:
        worlds = await open_worlds(spec.environments)
        try:
            return all_words(world.vocabulary() for world in worlds.values())
        finally:
            for world in worlds.values():
                await world.close()

    fetch_model(spec.model, asyncio.run(words()), spec.seed, folder)


def _objects(models: Path, folder: Path) -> Iterator[dict[str, Any]]:
    yield _volume(MODELS, models, storage_class="", modes=["ReadWriteMany"])
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": MODELS},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": MODELS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    for number in range(FILES):
        yield _volume(
            f"{STORAGE_CLASS}-{number}",
            folder / str(number),
            storage_class=STORAGE_CLASS,
            modes=["ReadWriteOnce"],
        )


def _volume(name: str, path: Path, *, storage_class: str, modes: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": modes,
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
