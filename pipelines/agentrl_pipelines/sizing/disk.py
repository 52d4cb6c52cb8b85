"""Bytes of a checkpoint, and of the temporary files of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentrl_components.sharded.passes.pass_memory import WIDTHS
from agentrl_components.spec import RunSpec, Trainers
from agentrl_components.spec.fields.compute import SAMPLERS, TRAINERS
from agentrl_components.spec.quantities import quantity_value
from agentrl_components.spec.rules.rule import Mistake
from agentrl_pipelines.platform.pod_sets import worker_groups
from agentrl_pipelines.sizing.devices import GIB, in_gib
from agentrl_pipelines.sizing.model_size import ModelSize

RESERVE = 2 << 30
"""Bytes for logs of Ray, compiled kernels and what vLLM keeps: an assumption, not measured."""


def checkpoint_bytes(spec: RunSpec, size: ModelSize) -> int:
    """Bytes of a checkpoint: the model in its own type, master weights and two moments in float32.
    With LoRA the merged model is float32, and the rest belongs to the adapters. The critic's state
    is as large as a model's."""
    width = 4 if spec.model.lora is not None else WIDTHS[spec.model.dtype]
    return width * _merged(spec, size) + _state(spec, size)


def pod_disk(spec: RunSpec, size: ModelSize) -> Mapping[str, int]:
    """Bytes of temporary files of each pod, by worker group. Empty without `ray: cluster`.

    Actors of a pod share the model's files, unless these are on a claim. A trainer writes its part
    of a checkpoint before it is stored, and fetches as much when the run is resumed with as many
    trainers. With another number a pod fetches the parts of all."""
    if spec.compute.ray != "cluster":
        return {}
    copied = not spec.model.source.startswith("file://")
    model = WIDTHS[spec.model.dtype] * _merged(spec, size) if copied else 0
    trainers = spec.compute.trainers or Trainers()
    share = _state(spec, size) * trainers.per_pod // trainers.count
    groups = {TRAINERS: model + share + RESERVE, SAMPLERS: model + RESERVE}
    return {group.name: groups[group.name] for group in worker_groups(spec.compute)}


def disk_warnings(spec: RunSpec, needed: Mapping[str, int]) -> Iterator[Mistake]:
    """Groups whose pods ask for less disk than they need. The kubelet ends a pod that exceeds its
    limit, and a volume is full then."""
    for group in worker_groups(spec.compute):
        bytes_ = needed.get(group.name, 0)
        if group.disk is not None and quantity_value(group.disk) < bytes_:
            each = -(-bytes_ // (group.spec.per_pod * GIB))
            yield Mistake(
                field=f"spec.compute.{group.name}.disk",
                reason=f"is {group.spec.disk}, and a pod has {group.disk}; its temporary files "
                f"take {in_gib(bytes_)}",
                fix=f"set it to {each}Gi",
            )


def _merged(spec: RunSpec, size: ModelSize) -> int:
    """Parameters of the model without adapters, or with adapters that are merged into it."""
    return size.total if spec.model.lora is None else size.total - size.trainable


def _state(spec: RunSpec, size: ModelSize) -> int:
    """Bytes of all trainers' parts of a checkpoint: weights and two moments in float32."""
    critic = size.total if spec.algorithm.traits.needs_critic else 0
    return 12 * (size.trainable + critic)
