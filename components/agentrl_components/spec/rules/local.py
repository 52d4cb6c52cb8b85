"""What a valid manifest lacks on this machine: files, packages and devices."""

from __future__ import annotations

import importlib.util
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from agentrl_components.compilers import compiler_names
from agentrl_components.spec.addresses import file_path
from agentrl_components.spec.batches import batches
from agentrl_components.spec.fields.compute import Samplers, Trainers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.environments.replicas import DEFAULT_TIMEOUT_S
from agentrl_components.spec.rules.rule import Mistake
from agentrl_envs.needs import install_extras
from agentrl_envs.registry import BUILT_IN, is_installed, needs

_DEVICES = Path("/dev")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _on_path(command: str) -> bool:
    return shutil.which(command) is not None


def local_warnings(
    spec: RunSpec,
    devices: Path = _DEVICES,
    installed: Callable[[str], bool] = _installed,
    on_path: Callable[[str], bool] = _on_path,
) -> Iterator[Mistake]:
    """What a run on this machine would fail on, found without loading the training stack.

    `devices` is the folder with the device files, `installed` says whether a package is
    installed, and `on_path` whether a command is found. A run on a cluster may still be possible.
    With `compute.ray: cluster` nothing runs on this machine, and only files and the packages of
    environments are looked for, without which options are not checked."""
    yield from _missing_files(spec)
    yield from _missing_extensions(spec)
    if spec.compute.ray == "cluster":
        return
    yield from _unmet_needs(spec)
    yield from _missing_packages(spec, installed)
    found = len(list(devices.glob("nvidia[0-9]*")))
    if spec.compute.ray == "embedded":
        yield from _too_many_devices(spec, found)
    if spec.compute.ray in (None, "embedded"):
        yield from _missing_compiler(spec, found, on_path)
    yield from _too_few_sessions(spec, found)
    yield from without_effect(spec)
    if spec.compute.ray is None and spec.compute.device == "cuda" and not found:
        yield Mistake(
            field="spec.compute.device",
            reason="there is no NVIDIA GPU",
            fix="set it to auto or cpu",
        )


def without_effect(spec: RunSpec) -> Iterator[Mistake]:
    """Fields that a run without Kubernetes does not use, where that is easily overlooked: timeouts
    of environments that a cluster runs in servers, and this machine in the process of the run."""
    for index, environment in enumerate(spec.environments):
        if (
            environment.builtin is not None
            and environment.workers == 0
            and environment.timeout_s != DEFAULT_TIMEOUT_S
        ):
            own_program = bool(needs(environment.builtin).programs)
            yield Mistake(
                field=f"spec.environments[{index}].timeoutS",
                reason="has no effect on this machine, where a builtin without workers runs in the "
                "process of the run: a call cannot be ended there",
                fix="serve it with agentrl envs serve and set url"
                + ("" if own_program else ", or set replicas to 0 and workers to 1 or more"),
            )


def _missing_files(spec: RunSpec) -> Iterator[Mistake]:
    """Files and folders of the manifest that do not exist. Those below the path of a claim are in
    pods only, if the run is for a cluster."""
    own_cluster = spec.compute.ray == "cluster"
    claims = [Path(volume.path) for volume in spec.compute.volumes if own_cluster]
    trajectories = spec.warm_start.trajectories if spec.warm_start else None
    for field, address in (
        ("spec.model.source", spec.model.source),
        ("spec.warmStart.trajectories", trajectories),
    ):
        if address and address.startswith("file://"):
            path = file_path(address)
            if not path.exists() and not any(map(path.is_relative_to, claims)):
                yield Mistake(field=field, reason=f"{path} does not exist", fix="check the path")


def _missing_extensions(spec: RunSpec) -> Iterator[Mistake]:
    """Environments of other packages that are not installed."""
    for index, environment in enumerate(spec.environments):
        name = environment.builtin
        if name is not None and name not in BUILT_IN and not is_installed(name):
            yield Mistake(
                field=f"spec.environments[{index}].builtin",
                reason=f"no package with {name} is installed",
                fix="install its package with pip",
            )


def _unmet_needs(spec: RunSpec) -> Iterator[Mistake]:
    """Packages and programs of built-in environments that are not installed."""
    for index, environment in enumerate(spec.environments):
        for what, fix in needs(environment.builtin or "").missing():
            yield Mistake(
                field=f"spec.environments[{index}].builtin",
                reason=f"{environment.builtin} needs {what}, which is not installed",
                fix=fix,
            )


def _missing_packages(spec: RunSpec, installed: Callable[[str], bool]) -> Iterator[Mistake]:
    """Packages of the training stack that are not installed."""
    if not installed("torch"):
        yield Mistake(
            field="spec.model.source",
            reason="torch, which computes the model, is not installed",
            fix=install_extras("train"),
        )
    if spec.rollout.engine == "vllm" and not installed("vllm"):
        yield Mistake(
            field="spec.rollout.engine",
            reason="vllm is not installed",
            fix=f"{install_extras('vllm')}, or set it to torch",
        )
    if spec.compute.ray is not None and not installed("ray"):
        yield Mistake(
            field="spec.compute.ray",
            reason="ray is not installed",
            fix=f"{install_extras('ray')}, or leave it out",
        )


def _too_few_sessions(spec: RunSpec, gpus: int) -> Iterator[Mistake]:
    """Environments of which a process plays more episodes at the same time than their options
    allow; the process of a worker or sampler has the environments of its episodes."""
    if spec.compute.ray is None:
        processes = 1 if gpus else spec.compute.processes
    else:
        processes = (spec.compute.samplers or Samplers()).count
    weights = sum(environment.weight for environment in spec.environments)
    for index, environment in enumerate(spec.environments):
        bounded = needs(environment.builtin or "")
        most = bounded.most_sessions(environment.options)
        batch = max(batches(spec), key=lambda one: one.share(environment.weight, weights))
        episodes = math.ceil(batch.share(environment.weight, weights) / processes)
        wanted = min(episodes, spec.rollout.concurrency)
        if most is not None and wanted > most:
            names = " and ".join(name for name, _ in bounded.bounds)
            yield Mistake(
                field=f"spec.environments[{index}].options",
                reason=f"a process then plays {wanted:,} episodes at the same time {batch.when}, "
                f"but has {environment.builtin} sessions for {most:,}; other episodes are lost",
                fix=f"set rollout.concurrency to {most:,}, or raise {names}",
            )


def _missing_compiler(
    spec: RunSpec, gpus: int, on_path: Callable[[str], bool]
) -> Iterator[Mistake]:
    """No compiler for the kernels of `update.compile`, and of vLLM on a machine with GPUs."""
    trainers, samplers = spec.compute.trainers or Trainers(), spec.compute.samplers or Samplers()
    engine_on_gpu = samplers.gpus if spec.compute.ray else gpus
    if spec.update.compile:
        field, on_gpu = "spec.update.compile", trainers.gpus > 0
    elif spec.rollout.engine == "vllm" and engine_on_gpu:
        field, on_gpu = "spec.rollout.engine", True
    else:
        return
    names = compiler_names(gpu=on_gpu)
    if not any(map(on_path, names)):
        yield Mistake(
            field=field,
            reason=f"needs a compiler when it runs, and none is on PATH ({' or '.join(names)})",
            fix="apt-get install g++ python3-dev",
        )


def _too_many_devices(spec: RunSpec, found: int) -> Iterator[Mistake]:
    """Trainers and samplers that ask for more GPUs together than the `found` ones."""
    if spec.compute.devices <= found:
        return
    trainers, samplers = spec.compute.trainers, spec.compute.samplers
    if spec.compute.share_gpus:
        yield Mistake(
            field="spec.compute.trainers.count",
            reason=f"trainers and samplers share {spec.compute.devices} GPUs, but this machine has "
            f"{found}",
            fix="lower the count of both",
        )
        return
    asked = {
        "trainers": trainers.count * trainers.gpus if trainers else 0,
        "samplers": samplers.count * samplers.gpus if samplers else 0,
    }
    most = max(asked, key=lambda name: asked[name])
    yield Mistake(
        field=f"spec.compute.{most}.count",
        reason=f"trainers need {asked['trainers']} GPUs and samplers {asked['samplers']}, but "
        f"this machine has {found}",
        fix="lower count or gpus of either",
    )
