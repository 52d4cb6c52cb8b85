"""What trainers and samplers reserve on Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentrl_components.errors import SpecError
from agentrl_components.spec import Compute, Samplers, Trainers

_UNITS = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def amount(quantity: str) -> float:
    """The number that a Kubernetes quantity stands for: 500m is 0.5, 2Gi is 2^31."""
    number = quantity.rstrip("mkKMGTi")
    return float(number) * _UNITS[quantity[len(number) :]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one actor reserves."""

    cpus: float
    gpus: int
    memory: int
    """Bytes. 0: none is reserved."""

    def options(self) -> dict[str, float]:
        """As arguments of Ray's `options`."""
        wanted: dict[str, float] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        return wanted | ({"memory": self.memory} if self.memory else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservations:
    """What all actors of a run reserve."""

    trainers: Trainers
    samplers: Samplers
    trainer: Reservation
    sampler: Reservation

    @property
    def cpus(self) -> float:
        """CPUs of all actors together."""
        return self.trainers.count * self.trainer.cpus + self.samplers.count * self.sampler.cpus

    @property
    def gpus(self) -> int:
        """GPUs of all actors together."""
        return self.trainers.count * self.trainer.gpus + self.samplers.count * self.sampler.gpus

    def check(self, available: Mapping[str, float]) -> None:
        """Raise `SpecError` if a Ray cluster with the resources `available` is too small."""
        for name, needed in (("GPU", self.gpus), ("CPU", self.cpus)):
            found = available.get(name, 0.0)
            if needed > found:
                raise SpecError(
                    [
                        f"spec.compute.trainers.count: {self.trainers.count} trainers and "
                        f"{self.samplers.count} samplers need {needed:g} {name}s, but Ray has "
                        f"{found:g}; lower count of spec.compute.trainers or spec.compute.samplers"
                    ]
                )


def reservations(compute: Compute) -> Reservations:
    """What the actors of a manifest reserve. An embedded Ray reserves no memory: the run's
    processes share this machine as without Ray."""
    trainers = compute.trainers or Trainers()
    samplers = compute.samplers or Samplers()
    memory = 0 if compute.ray == "embedded" else int(amount(trainers.memory))
    return Reservations(
        trainers=trainers,
        samplers=samplers,
        trainer=Reservation(cpus=amount(trainers.cpu), gpus=trainers.gpus, memory=memory),
        sampler=Reservation(cpus=1.0, gpus=samplers.gpus, memory=0),
    )
