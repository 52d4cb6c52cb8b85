"""The Ray actors of a run: trainers and samplers, opened and closed together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from agentrl_components.engines.vllm_engine.weights import stored_shapes
from agentrl_components.errors import ModelError, WorkersLostError
from agentrl_components.model.shape import read_shape
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.hand_over.nccl import NcclTransfer
from agentrl_components.ray_workers.hand_over.same_gpu import SameGpuTransfer
from agentrl_components.ray_workers.hand_over.sparse import SparseTransfer
from agentrl_components.ray_workers.hand_over.transfer import ChangesTransfer, WeightTransfer
from agentrl_components.ray_workers.lifetimes import lifetime_of
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.nodes.installed_code import installed_code
from agentrl_components.ray_workers.placement import open_placement
from agentrl_components.ray_workers.resources import Reservation, reservations
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.spec import RunSpec, Samplers
from agentrl_components.workers.exit_stack_owner import ExitStackOwner

RECURRENT = ".A_log"
"""How the name of a weight ends that every layer with a recurrent state has."""


class Actors(ExitStackOwner):
    """A context manager that keeps the connection to Ray and the actors open.

    On the run's own cluster actors stay when it is left, for the next driver: all of them, or, if
    one died, the samplers. After other errors none stays, because the cause may be in them."""

    trainers: RayTrainers | None = None

    def __init__(
        self, spec: RunSpec, model: ModelFolder, *, trains: bool, note: Callable[[str], None]
    ) -> None:
        """Connect to Ray and start the actors, or take over those that an earlier driver has left.
        `trains` is false for an evaluation, whose samplers play with the weights of the model
        folder. `note` gets what people should know about these actors. Raises what `connect`
        raises, `SpecError` if a machine has another AgentRL, and `ModelError` if the model cannot
        be opened, split or handed over as the manifest says."""
        assert spec.compute.ray is not None
        reserved = reservations(spec.compute)
        _check_division(spec, model)
        if trains:
            _check_changes(spec, model)
        with ExitStack() as opened:
            opened.callback(connect(spec.compute.ray, reserved, trains=trains, note=note))
            placement = open_placement(spec.compute.ray, reserved, note, trains=trains)
            opened.callback(placement.close)
            self._lifetime = lifetime = lifetime_of(
                spec, model.vocabulary, trains=trains, code=installed_code()
            )
            transfer: WeightTransfer | None = None
            if trains:
                device = _device(reserved.trainer)
                self.trainers = RayTrainers(spec, model, reserved, device, lifetime, placement)
                opened.push(self._leave_trainers)
                transfer = _transfer(spec, self.trainers)
            shared = self.trainers.shared_gpus() if self.trainers and reserved.shared else None
            device = _device(reserved.sampler)
            self.samplers = RaySamplers(
                spec, model, reserved, device, transfer, lifetime, placement, shared
            )
            opened.push(self._leave_samplers)
            self._open(note, shared=reserved.shared)
            self.groups = RayGroupSamplers(self.samplers)
            for text in self._notes():
                note(text)
            self._opened = opened.pop_all()

    def _open(self, note: Callable[[str], None], *, shared: bool) -> None:
        """Wait until the actors are of use. All have been started, and open at the same time; but
        vLLM measures the memory that is free on its GPU, so trainers that share it open later."""
        if self.trainers is not None and shared:
            self.samplers.open(note)
            self.samplers.sleep()
            self.trainers.open(note)
            self.trainers.take_gpus = self.samplers.sleep
            self.samplers.take_gpus = self.trainers.rest
            return
        if self.trainers is not None:
            self.trainers.open(note)
        self.samplers.open(note)

    @property
    def taken_over(self) -> str:
        """The actors that an earlier driver had left, in words; empty if there were none."""
        trainers = 0 if self.trainers is None else self.trainers.taken_over
        counts = {"trainers": trainers, "samplers": self.samplers.taken_over}
        return ", ".join(f"{count} {role}" for role, count in counts.items() if count)

    def _notes(self) -> list[str]:
        """What people should know about these actors."""
        notes = []
        if self.taken_over:
            notes.append(f"took over from an earlier stage: {self.taken_over}")
        if self.trainers is not None and self.trainers.pass_the_driver:
            notes.append(
                "checkpoints of trainers on other machines pass through the memory of this "
                "process; to have them written to the store directly, set storage.url to an S3 "
                "store and its keys in the environment of all Ray nodes"
            )
        return notes

    def hand_over_metrics(self) -> dict[str, float]:
        """What hand-overs took since the last call: metrics by name."""
        done, self.samplers.handed_over = self.samplers.handed_over, []
        if not done:
            return {}
        return {
            "seconds/hand_over": sum(one.seconds for one in done),
            "train/hand_over_bytes": float(sum(one.bytes for one in done)),
        }

    def load_metrics(self) -> dict[str, float]:
        """How busy samplers were since the last call: metrics by name."""
        metrics: dict[str, float] = {}
        loads = self.samplers.take_loads()
        seconds = sum(load.seconds for load in loads)
        if seconds:
            metrics["rollout/idle_share"] = 1 - sum(load.busy_s for load in loads) / seconds
        asked = sum(load.prompt_tokens for load in loads)
        if asked:
            metrics["rollout/prefix_hits"] = sum(load.cached_tokens for load in loads) / asked
        return metrics

    def _leave_trainers(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        assert self.trainers is not None
        if error is not None or not self._lifetime.lasting:
            self.trainers.close()

    def _leave_samplers(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        lost = isinstance(error, WorkersLostError)
        may_stay = self.samplers.opened and (error is None or lost)
        if may_stay and self._lifetime.lasting:
            self.samplers.rest()
        else:
            self.samplers.close()


def _transfer(spec: RunSpec, trainers: RayTrainers) -> WeightTransfer:
    """The way for weights to get to the samplers."""
    adapters = spec.model.lora is not None
    shares = spec.compute.share_gpus
    if shares and not adapters and spec.compute.hand_over != "ray":
        return SameGpuTransfer(trainers.source)
    way: ChangesTransfer = BucketTransfer(trainers.source, adapters=adapters, shares=shares)
    if spec.compute.hands_over_by_nccl(spec.rollout.engine, lora=adapters):
        way = NcclTransfer(trainers.source, (spec.compute.samplers or Samplers()).tensor_parallel)
    return SparseTransfer(trainers.source, way) if spec.compute.sparse_hand_over else way


def _device(reservation: Reservation) -> str:
    return "cuda" if reservation.gpus else "cpu"


def _check_division(spec: RunSpec, model: ModelFolder) -> None:
    """Raise `ModelError` if engines cannot divide the model among their devices."""
    samplers = spec.compute.samplers
    if samplers is None or samplers.tensor_parallel == 1:
        return
    shape = read_shape(model.path, spec.model.implementation)
    if undivided := shape.undivided(samplers.tensor_parallel):
        raise ModelError(
            f"spec.compute.samplers.tensorParallel: {samplers.tensor_parallel} does not divide the "
            f"{undivided} of {spec.model.source}; set it to one of "
            f"{', '.join(map(str, shape.divisors))}"
        )


def _check_changes(spec: RunSpec, model: ModelFolder) -> None:
    """Raise `ModelError` if changes alone are to be sent to vLLM and it cannot take them. It writes
    them where a loader copies a weight once, by `Tensor.copy_`. Those of layers with a recurrent
    state compute with the entries that have not changed, or write by other means: no error, but
    wrong weights."""
    if not spec.compute.sparse_hand_over or spec.rollout.engine != "vllm":
        return
    if any(name.endswith(RECURRENT) for name in stored_shapes(model.path)):
        raise ModelError(
            f"spec.compute.sparseHandOver: vLLM cannot write changes into the recurrent layers "
            f"(Mamba, Gated DeltaNet) of {spec.model.source}; set it to false"
        )
