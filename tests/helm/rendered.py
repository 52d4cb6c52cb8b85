"""Access to rendered manifests."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrl_pipelines.platform import config

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "agentrl"
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Template = Callable[..., subprocess.CompletedProcess[str]]


def the(objects: list[Manifest], kind: str, name: str) -> Manifest:
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def kinds(objects: list[Manifest]) -> list[str]:
    return sorted(one["kind"] for one in objects)


def settings(objects: list[Manifest], folder: Path) -> config.Platform:
    path = folder / "platform.yaml"
    path.write_text(the(objects, "ConfigMap", "agentrl-platform")["data"]["platform.yaml"])
    return config.load(path)
