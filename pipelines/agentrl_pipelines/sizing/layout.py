"""How many devices a run uses, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.spec import RunSpec, Samplers, Trainers
from agentrl_pipelines.sizing.devices import CPU, Device

SHARE_OF_ENGINE = 0.5
"""Share of a device's memory that vLLM takes beside a trainer (`VllmOptions.memory_share`)."""
LANES = 2
"""Gradient vectors of the trainers without sharding (`update.flat_parameters.LANES`)."""
ASLEEP = 3 << 30
"""Bytes on a GPU that vLLM has while it sleeps, for its CUDA context and graphs: an assumption, not
measured."""
MACHINE = 3 << 29
"""Bytes on a machine without GPUs for the process of the run itself, the tracker, and Ray with its
object store. Measured with `examples/babyai-ray.yaml`: 1.1 GiB, of an empty object store."""


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
    """Share of a device's memory that vLLM takes."""
    shared_device: bool
    """Trainer and engine are on the same device."""
    one_machine: bool = False
    """There are no GPUs: all trainers and engines are processes that share a machine's memory."""
    sleeps: bool = False
    """vLLM gives the memory of the shared device back while the trainer computes."""
    lanes: int = 1
    """Packs that a trainer computes at the same time, in processes of its own."""

    @property
    def turns(self) -> bool:
        """Whether a trainer and an engine on Ray use a device in turns (`compute.shareGpus`)."""
        return self.sharded and self.shared_device

    @property
    def devices(self) -> int:
        """Devices of the whole run."""
        if self.one_machine:
            return 1
        return (
            self.ranks if self.shared_device else self.ranks + self.engines * self.tensor_parallel
        )

    def room(self, memory: int, engine: int) -> int:
        """Bytes for each trainer, if devices have `memory` bytes and engines take `engine`."""
        if self.one_machine:
            return (memory - MACHINE - self.engines * engine) // self.ranks
        if self.sleeps:
            return memory - ASLEEP
        return memory - engine if self.shared_device else memory

    def spare(self, memory: int, trainer: int) -> int:
        """Bytes for each engine, if devices have `memory` bytes and trainers take `trainer`."""
        if self.one_machine:
            return (memory - MACHINE - self.ranks * trainer) // self.engines
        return memory - trainer if self.shared_device else memory

    def spare_engines(self, memory: int, trainer: int, engine: int) -> int:
        """Engines of `engine` bytes for which a machine without GPUs has room beside its trainers.
        0 elsewhere."""
        if not self.one_machine:
            return 0
        return max(0, memory - MACHINE - self.ranks * trainer) // engine


def layout(spec: RunSpec, device: Device) -> Layout:
    """The devices that `spec.compute` asks for. Of a CPU there is one machine."""
    compute = spec.compute
    on_cpu = device.name == CPU
    if compute.ray is None:
        workers = compute.processes if on_cpu else 1
        colocated = compute.placement == "colocated"
        return Layout(
            ranks=1,
            sharded=False,
            engines=workers,
            tensor_parallel=1,
            memory_share=SHARE_OF_ENGINE,
            shared_device=colocated,
            one_machine=on_cpu,
            sleeps=colocated and spec.rollout.engine == "vllm" and not on_cpu,
            lanes=min(workers, LANES),
        )
    trainers, samplers = compute.trainers or Trainers(), compute.samplers or Samplers()
    return Layout(
        ranks=trainers.count,
        sharded=True,
        engines=samplers.count,
        tensor_parallel=samplers.tensor_parallel,
        memory_share=samplers.memory_share,
        shared_device=compute.share_gpus and not on_cpu,
        one_machine=on_cpu,
        sleeps=compute.share_gpus and not on_cpu,
    )
