"""Rules about the pods of a run: how many actors each has, its disk, volumes and variables."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.compute import SAMPLERS, TRAINERS, Samplers, Trainers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.compute.volumes import free_places, place_mistakes
from agentrl_components.spec.rules.rule import Mistake, Rule, differences, rule
from agentrl_components.spec.rules.variables import free_names, name_mistakes

RESERVED_VARIABLES = frozenset(
    {
        "AGENTRL_ENV_TOKEN",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_ENDPOINT_URL_STS",
        "HOME",
        "RAY_ADDRESS",
        "RAY_AUTH_MODE",
        "RAY_AUTH_TOKEN",
    }
)
"""What the operator sets, and the addresses to which a pod would send the token of its identity."""
RESERVED_SECRETS = frozenset(name for name in RESERVED_VARIABLES if not name.startswith("RAY_"))
"""Of secretEnv: a Ray cluster whose address is in compute.ray may ask for a token."""


def _groups(spec: RunSpec) -> Iterator[tuple[str, Trainers | Samplers | None]]:
    yield TRAINERS, spec.compute.trainers
    yield SAMPLERS, spec.compute.samplers


@rule(
    "compute",
    cel="(!has(self.compute.trainers)"
    " || self.compute.trainers.count % self.compute.trainers.perPod == 0)"
    " && (!has(self.compute.samplers)"
    " || self.compute.samplers.count % self.compute.samplers.perPod == 0)",
)
def pods_are_full(spec: RunSpec) -> Iterator[Mistake]:
    """compute.trainers.perPod must divide trainers.count, and samplers.perPod samplers.count."""
    for name, group in _groups(spec):
        if group and group.count % group.per_pod:
            sizes = [str(n) for n in range(1, min(group.count, 64) + 1) if group.count % n == 0]
            yield Mistake(
                field=f"spec.compute.{name}.perPod",
                reason=f"{group.per_pod} does not divide {name}.count, {group.count}",
                fix=f"set it to one of {', '.join(sizes)}, or change count",
            )


def _needs_own_cluster(group: str) -> str:
    return (
        f"(!has(self.compute.{group}) || (!has(self.compute.{group}.disk)"
        f" && self.compute.{group}.perPod == 1)"
        " || (has(self.compute.ray) && self.compute.ray == 'cluster'))"
    )


@rule("compute", cel=f"{_needs_own_cluster(TRAINERS)} && {_needs_own_cluster(SAMPLERS)}")
def disk_and_per_pod_are_for_pods_of_ray(spec: RunSpec) -> Iterator[Mistake]:
    """disk and perPod of compute.trainers and compute.samplers require compute.ray cluster."""
    if spec.compute.ray == "cluster":
        return
    for name, group in _groups(spec):
        for field in differences(group, Trainers(), ("disk", "per_pod")) if group else ():
            yield Mistake(
                field=f"spec.compute.{name}.{Trainers.model_fields[field].alias}",
                reason="has no effect without spec.compute.ray cluster",
                fix="leave it out, or set spec.compute.ray to cluster",
            )


@rule(
    "compute",
    cel="!has(self.compute.storageClass) || (has(self.compute.trainers)"
    " && has(self.compute.trainers.disk) && has(self.compute.samplers)"
    " && has(self.compute.samplers.disk))",
)
def volumes_have_a_size(spec: RunSpec) -> Iterator[Mistake]:
    """compute.storageClass requires compute.trainers.disk and compute.samplers.disk."""
    for name, group in _groups(spec):
        if spec.compute.storage_class is not None and (group is None or group.disk is None):
            yield Mistake(
                field=f"spec.compute.{name}.disk",
                reason="is missing, and is the size of the volumes of spec.compute.storageClass",
                fix="set it, such as to 50Gi, or leave storageClass out",
            )


@rule("compute", cel=free_places("self.compute.volumes"))
def volumes_do_not_collide(spec: RunSpec) -> Iterator[Mistake]:
    """Claims and paths in compute.volumes must be unique. Paths must not be /tmp or /dev/shm,
    below or above them, and claims must not be named scratch, shared-mem, shared-memory or tmp,
    as volumes of the pods are."""
    yield from place_mistakes("spec.compute.volumes", spec.compute.volumes)


@rule(
    "compute",
    cel=free_names("self.compute.secretEnv", RESERVED_SECRETS)
    + " && "
    + free_names("self.compute.env", RESERVED_VARIABLES, "self.compute.secretEnv"),
)
def env_names_are_free(spec: RunSpec) -> Iterator[Mistake]:
    """Names in compute.secretEnv and env must be unique and not reserved: AGENTRL_ENV_TOKEN, HOME
    and, in env, RAY_ADDRESS, RAY_AUTH_MODE and RAY_AUTH_TOKEN are set by the operator,
    AWS_ENDPOINT_URL_STS and AWS_CONTAINER_CREDENTIALS_FULL_URI by the platform."""
    why, secrets = "is reserved", spec.compute.secret_env
    yield from name_mistakes("spec.compute.secretEnv", secrets, RESERVED_SECRETS, why)
    yield from name_mistakes("spec.compute.env", spec.compute.env, RESERVED_VARIABLES, why, secrets)


RULES: tuple[Rule, ...] = (
    pods_are_full,
    disk_and_per_pod_are_for_pods_of_ray,
    volumes_have_a_size,
    volumes_do_not_collide,
    env_names_are_free,
)
