"""The Ray actors of a run: trainers and samplers, opened and closed together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from agentrl_components.errors import ModelError
from agentrl_components.model import architecture
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.hand_over.nccl import NcclTransfer
from agentrl_components.ray_workers.hand_over.transfer import WeightTransfer
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.resources import Reservation, reservations
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.spec import RunSpec, Samplers


class Actors:
    """Keeps the connection to Ray and the actors open until `close`."""

    trainers: RayTrainers | None = None

    def __init__(self, spec: RunSpec, model: ModelFolder, *, trains: bool) -> None:
        """Connect to Ray and start the actors. `trains` is false for an evaluation, whose samplers
        play with the weights of the model folder. Raises what `connect` raises, and `ModelError` if
        the model cannot be opened or split as the manifest says."""
        assert spec.compute.ray is not None
        reserved = reservations(spec.compute)
        _check_heads(spec, model)
        with ExitStack() as opened:
            opened.callback(connect(spec.compute.ray, reserved))
            transfer: WeightTransfer | None = None
            if trains:
                device = _device(reserved.trainer)
                self.trainers = RayTrainers(spec, model, reserved, device)
                opened.callback(self.trainers.close)
                transfer = _transfer(spec, self.trainers)
            device = _device(reserved.sampler)
            self.samplers = RaySamplers(spec, model, reserved, device, transfer)
            self.groups = RayGroupSamplers(self.samplers)
            opened.callback(self.samplers.close)
            self._close: Callable[[], None] = opened.pop_all().close

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

    def close(self) -> None:
        """End the actors, and Ray if this process started it."""
        self._close()


def _transfer(spec: RunSpec, trainers: RayTrainers) -> WeightTransfer:
    """The way for weights to get to the samplers."""
    adapters = spec.model.lora is not None
    if spec.compute.hands_over_by_nccl(spec.rollout.engine, lora=adapters):
        return NcclTransfer(trainers, (spec.compute.samplers or Samplers()).tensor_parallel)
    return BucketTransfer(trainers, adapters=adapters)


def _device(reservation: Reservation) -> str:
    return "cuda" if reservation.gpus else "cpu"


def _check_heads(spec: RunSpec, model: ModelFolder) -> None:
    """Raise `ModelError` if engines cannot split the model's heads."""
    samplers = spec.compute.samplers
    if samplers is None or samplers.tensor_parallel == 1:
        return
    heads = architecture.read(model.path).heads
    if heads % samplers.tensor_parallel:
        raise ModelError(
            f"spec.compute.samplers.tensorParallel: {samplers.tensor_parallel} does not divide the "
            f"{heads} heads of {spec.model.source}; set it to a divisor of {heads}"
        )
