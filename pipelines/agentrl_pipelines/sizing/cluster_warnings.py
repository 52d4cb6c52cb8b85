"""What makes a run slower on Kubernetes than it need be, or its pods end."""

from __future__ import annotations

import math
from collections.abc import Iterator

from agentrl_components.spec import Environment, RunSpec
from agentrl_components.spec.batches import IN_TRAINING, batches
from agentrl_components.spec.quantities import quantity_value
from agentrl_components.spec.rules.rule import Mistake
from agentrl_envs.protocol import DEFAULT_CAPACITY
from agentrl_envs.registry import needs
from agentrl_pipelines.platform.pod_sets import server_requests
from agentrl_pipelines.sizing.devices import GIB, in_gib

MACHINE_GPUS = 8
"""The most GPUs that a machine usually has."""
ABOVE_ESTIMATE = 1.05
"""Share of a pod's memory that an estimate may reach: it is an upper bound, which counts every
episode in flight as long as it can become."""


def server_warnings(spec: RunSpec, at_once: int) -> Iterator[Mistake]:
    """Environments whose servers have room for fewer sessions than are open at the same time, or
    too little memory for the sessions that they have room for, if at most `at_once` episodes are
    in flight.

    Servers are those of a `builtin` with `replicas` above 0. How many sessions a server behind a
    `url` or in an `image` without a `builtin` has room for is not in the manifest."""
    weights = sum(environment.weight for environment in spec.environments)
    for index, environment in enumerate(spec.environments):
        if environment.builtin is None or environment.replicas == 0:
            continue
        where = f"spec.environments[{index}]"
        sessions = {
            one.when: min(at_once, one.share(environment.weight, weights)) for one in batches(spec)
        }
        yield from _too_little_memory(environment, where, max(sessions.values()))
        # Episodes of evaluations and of the warm start may wait: there are few of them.
        yield from _too_few_servers(environment, where, sessions[IN_TRAINING])


def _too_few_servers(environment: Environment, where: str, wanted: int) -> Iterator[Mistake]:
    """Servers without room for the `wanted` sessions of training."""
    servers, each = _servers(environment)
    if wanted <= servers * each:
        return
    name = "replicas" if environment.scaling is None else "scaling.maxReplicas"
    yield Mistake(
        field=f"{where}.{name}",
        reason=f"is {servers}; on Kubernetes servers of {each:,} sessions then have room for "
        f"{servers * each:,} of the {wanted:,} that are open at the same time {IN_TRAINING}, and "
        "the others wait",
        fix=f"set it to {math.ceil(wanted / each):,}, or lower rollout.concurrency",
    )


def _too_little_memory(environment: Environment, where: str, wanted: int) -> Iterator[Mistake]:
    """Servers that are killed for memory once as many of the `wanted` sessions as they have room
    for are open in one of them: the Service does not count sessions when it chooses a server."""
    needed = needs(environment.builtin or "")
    sessions = min(wanted, _servers(environment)[1])
    mib, given = needed.memory_of(sessions), server_requests(environment)["memory"]
    if quantity_value(given) >= mib << 20:
        return
    bounds = " and ".join(f"options.{name}" for name, _ in needed.bounds)
    yield Mistake(
        field=f"{where}.memory",
        reason=f"is {given}; on Kubernetes a server has up to {sessions:,} sessions of "
        f"{needed.session_mib} MiB each, and is killed when they take more",
        fix=f"set it to {mib}Mi" + (f", or lower {bounds} and raise replicas" if bounds else ""),
    )


def pod_warnings(spec: RunSpec) -> Iterator[Mistake]:
    """Trainers on GPUs that have a pod each."""
    trainers = spec.compute.trainers
    if spec.compute.ray != "cluster" or trainers is None or not trainers.gpus:
        return
    if trainers.count > 1 and trainers.per_pod == 1:
        yield Mistake(
            field="spec.compute.trainers.perPod",
            reason=f"is 1; the gradients of {trainers.count} trainers then go over the pods' "
            "network, also between GPUs of one machine",
            fix="set it to the GPUs of a machine, which NVLink connects",
        )


def embedded_warnings(spec: RunSpec) -> Iterator[Mistake]:
    """An embedded Ray that needs more GPUs than one machine or one pod usually has: all of its
    trainers and samplers are processes of the stage's pod."""
    compute = spec.compute
    if compute.ray != "embedded":
        return
    needed, given = compute.devices, compute.gpus
    if needed > MACHINE_GPUS:
        yield Mistake(
            field="spec.compute.ray",
            reason=f"is embedded, so that trainers and samplers need {needed} GPUs in one machine, "
            f"which usually has at most {MACHINE_GPUS}",
            fix="set it to cluster on Kubernetes, or to the address of a Ray cluster",
        )
    elif needed > given:
        yield Mistake(
            field="spec.compute.ray",
            reason=f"is embedded; on Kubernetes all trainers and samplers are then in one pod, "
            f"which has {given} of the {needed} GPUs that they need (compute.gpus, at most 1)",
            fix="set it to cluster there, which has pods for trainers and for samplers",
        )


def memory_warnings(spec: RunSpec, taken: int | None) -> Iterator[Mistake]:
    """A pod of a stage that is killed for memory. `taken`: bytes that the processes of the largest
    one take without GPUs; None: they have GPUs, or trainers and samplers have pods of their own."""
    compute = spec.compute
    if taken is None or taken <= quantity_value(compute.memory) * ABOVE_ESTIMATE:
        return
    who = "all trainers and samplers of an embedded Ray are in one pod, and"
    if compute.ray is None:
        who = "the processes of a stage's pod"
    yield Mistake(
        field="spec.compute.memory",
        reason=f"is {compute.memory}; on Kubernetes {who} take about {in_gib(taken)}",
        fix=f"set it to {math.ceil(taken / GIB)}Gi",
    )


def _servers(environment: Environment) -> tuple[int, int]:
    """The largest number of servers, and the sessions that each has room for."""
    scaling, options = environment.scaling, environment.options
    bound = needs(environment.builtin or "").most_sessions(options) or DEFAULT_CAPACITY
    if scaling is None:
        return environment.replicas, min(bound, DEFAULT_CAPACITY)
    return scaling.max_replicas, min(bound, scaling.sessions_per_server or DEFAULT_CAPACITY)
