"""What a valid manifest lacks on this machine: files, packages and devices."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake
from agentrl_envs.registry import BUILT_IN, is_installed, needs

_DEVICES = Path("/dev")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def local_warnings(
    spec: RunSpec, devices: Path = _DEVICES, installed: Callable[[str], bool] = _installed
) -> Iterator[Mistake]:
    """What a run on this machine would fail on, found without loading the training stack.

    `devices` is the folder with the device files, and `installed` says whether a package is
    installed. A run on a cluster may still be possible."""
    trajectories = spec.warm_start.trajectories if spec.warm_start else None
    for field, address in (
        ("spec.model.source", spec.model.source),
        ("spec.warmStart.trajectories", trajectories),
    ):
        if address and address.startswith("file://"):
            path = Path(unquote(urlsplit(address).path))
            if not path.exists():
                yield Mistake(field=field, reason=f"{path} does not exist", fix="check the path")
    for index, environment in enumerate(spec.environments):
        name = environment.builtin
        if name is not None and name not in BUILT_IN and not is_installed(name):
            yield Mistake(
                field=f"spec.environments[{index}].builtin",
                reason=f"no package with {name} is installed",
                fix="install its package with pip",
            )
        if environment.builtin is not None:
            for what, fix in needs(environment.builtin).missing():
                yield Mistake(
                    field=f"spec.environments[{index}].builtin",
                    reason=f"{environment.builtin} needs {what}, which is not installed",
                    fix=fix,
                )
    if spec.rollout.engine == "vllm" and not installed("vllm"):
        yield Mistake(
            field="spec.rollout.engine",
            reason="vllm is not installed",
            fix="install agentrl[vllm], or set it to torch",
        )
    if spec.compute.ray is not None and not installed("ray"):
        yield Mistake(
            field="spec.compute.ray",
            reason="ray is not installed",
            fix="install agentrl[ray], or leave it out",
        )
    if spec.compute.ray == "embedded":
        yield from _too_many_devices(spec, len(list(devices.glob("nvidia[0-9]*"))))
    if spec.compute.device == "cuda" and not any(devices.glob("nvidia[0-9]*")):
        yield Mistake(
            field="spec.compute.device",
            reason="there is no NVIDIA GPU",
            fix="set it to auto or cpu",
        )


def _too_many_devices(spec: RunSpec, found: int) -> Iterator[Mistake]:
    """Trainers and samplers that ask for more GPUs together than the `found` ones."""
    trainers, samplers = spec.compute.trainers, spec.compute.samplers
    asked = {
        "trainers": trainers.count * trainers.gpus if trainers else 0,
        "samplers": samplers.count * samplers.gpus if samplers else 0,
    }
    if sum(asked.values()) > found:
        most = max(asked, key=lambda name: asked[name])
        yield Mistake(
            field=f"spec.compute.{most}.count",
            reason=f"trainers need {asked['trainers']} GPUs and samplers {asked['samplers']}, but "
            f"this machine has {found}",
            fix="lower count or gpus of either",
        )
