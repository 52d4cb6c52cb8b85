"""How many devices a run uses, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.spec import RunSpec, Samplers, Trainers

SHARE_OF_ENGINE = 0.5
"""Share of a device's memory that vLLM takes beside a trainer (`VllmOptions.memory_share`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Devices of trainers and samplers."""

    ranks: int
    """Devices of the trainers."""
    sharded: bool
    """Weights, gradients and moments are divided among the ranks (FSDP2)."""
    engines: int
    tensor_parallel: int
    """Devices of each engine."""
    memory_share: float
    """Share of a device's memory that an engine takes."""
    shared_device: bool
    """Trainer and engine are on the same device."""

    @property
    def devices(self) -> int:
        """Devices of the whole run."""
        return (
            self.ranks if self.shared_device else self.ranks + self.engines * self.tensor_parallel
        )


def layout(spec: RunSpec) -> Layout:
    """The devices that `spec.compute` asks for."""
    compute = spec.compute
    if compute.ray is None:
        return Layout(
            ranks=1,
            sharded=False,
            engines=1,
            tensor_parallel=1,
            memory_share=SHARE_OF_ENGINE,
            shared_device=compute.placement == "colocated",
        )
    trainers, samplers = compute.trainers or Trainers(), compute.samplers or Samplers()
    return Layout(
        ranks=trainers.count,
        sharded=True,
        engines=samplers.count,
        tensor_parallel=samplers.tensor_parallel,
        memory_share=samplers.memory_share,
        shared_device=False,
    )
