"""What makes a run slower on Kubernetes than it need be."""

from __future__ import annotations

import math
from collections.abc import Iterator

from agentrl_components.rollout.tasks import shares
from agentrl_components.spec import Environment, RunSpec
from agentrl_components.spec.rules.rule import Mistake
from agentrl_envs.protocol import DEFAULT_CAPACITY


def capacity_warnings(spec: RunSpec, at_once: int) -> Iterator[Mistake]:
    """Environments whose servers have room for fewer sessions than are open at the same time, if
    `at_once` episodes of training are in flight.

    Servers are those of a `builtin` with `replicas` above 0. How many sessions a server behind a
    `url` or in an `image` without a `builtin` has room for is not in the manifest."""
    tasks = shares([environment.weight for environment in spec.environments], spec.rollout.tasks)
    for index, environment in enumerate(spec.environments):
        if environment.builtin is None or environment.replicas == 0:
            continue
        wanted = min(at_once, tasks[index] * spec.rollout.group_size)
        servers, each = _servers(environment)
        if wanted <= servers * each:
            continue
        name = "replicas" if environment.scaling is None else "scaling.maxReplicas"
        yield Mistake(
            field=f"spec.environments[{index}].{name}",
            reason=f"is {servers}; on Kubernetes servers of {each:,} sessions then have room for "
            f"{servers * each:,} of the {wanted:,} that are open at the same time, and the others "
            "wait",
            fix=f"set it to {math.ceil(wanted / each):,}, or lower rollout.concurrency",
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


def _servers(environment: Environment) -> tuple[int, int]:
    """The largest number of servers, and the sessions that each has room for."""
    scaling = environment.scaling
    if scaling is None:
        return environment.replicas, DEFAULT_CAPACITY
    return scaling.max_replicas, scaling.sessions_per_server or DEFAULT_CAPACITY
