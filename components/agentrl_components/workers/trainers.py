"""Trainers on the worker processes of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from agentrl_components.model.load import export_weights
from agentrl_components.spec import RunSpec
from agentrl_components.storage.files import Files
from agentrl_components.update.flat_parameters import LANES
from agentrl_components.update.objectives import ModelName, Objective, Sums, accumulate
from agentrl_components.update.optimizer import Optimizer, saved_weights
from agentrl_components.update.packing import Example, Pack, pack, plan
from agentrl_components.update.trainers import Column, Shards
from agentrl_components.workers.pool import WorkerPool
from agentrl_components.workers.worker import Worker


class PoolTrainers:
    """Implements `update.trainers.Trainers`.

    Packs are assigned to `LANES` gradient lanes by their lengths alone, a lane is computed by one
    worker, and lanes are summed in a fixed order, so results are bit for bit independent of the
    number of workers. Weights and gradients are vectors in memory that all workers share."""

    shards: Shards | None = None

    def __init__(self, spec: RunSpec, lead: Worker, pool: WorkerPool) -> None:
        """`lead` is this process's worker, whose vectors the workers of `pool` share."""
        self._spec, self._lead, self._pool = spec, lead, pool
        self.policy = Optimizer(lead.policy, spec.update)
        self.critic = None if lead.critic is None else Optimizer(lead.values, spec.update)

    def differentiate(self, objective: Objective, examples: Sequence[Example]) -> Sums:
        lanes = enumerate(self._packs(examples))
        total: Sums = {}
        calls = [(objective, packs, lane) for lane, packs in lanes]
        for sums in self._pool.map(Worker.differentiate, calls):
            accumulate(total, sums)
        return total

    def step(self, model: ModelName, learning_rate: float) -> float:
        return self._optimizer(model).step(learning_rate)

    def clear_moments(self, model: ModelName) -> None:
        self._optimizer(model).clear_moments()

    def logprobs(self, examples: Sequence[Example], *, reference: bool = False) -> list[Column]:
        return self._per_example(examples, Worker.logprobs, reference)

    def values(self, examples: Sequence[Example]) -> list[Column]:
        return self._per_example(examples, Worker.estimates)

    @torch.no_grad()
    def set_start(self) -> None:
        policy = self._lead.policy.shared
        if policy.reference is not None:
            policy.reference.copy_(policy.vector)
        if self._lead.critic is not None:
            trunk = self._lead.values.split(self._lead.values.shared.vector)
            decoder = self._lead.critic.decoder
            names = {decoder.saved_name(n): n for n, _ in decoder.named_parameters()}
            for name, weight in self.weights():
                if name in names:  # buffers are those of the model folder
                    trunk[f"decoder.{names[name]}"].copy_(weight)

    @torch.no_grad()
    def restore_reference(self, files: Mapping[str, bytes | Path]) -> None:
        reference = self._lead.policy.shared.reference
        if reference is not None:
            reference.copy_(saved_weights(files, "optimizer"))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        self._lead.policy.refresh()
        yield from export_weights(self._lead.decoder).items()

    def state(self, spool: Path | None = None) -> Files:
        files = self.policy.state("optimizer", spool)
        return files if self.critic is None else files | self.critic.state("critic", spool)

    def restore(self, files: Mapping[str, bytes | Path]) -> None:
        self.policy.restore(files, "optimizer")
        if self.critic is not None:
            self.critic.restore(files, "critic")

    def _optimizer(self, model: ModelName) -> Optimizer:
        if model == "policy":
            return self.policy
        if self.critic is None:
            raise ValueError(f"algorithm {self._spec.algorithm.name} has no critic")
        return self.critic

    def _per_example(
        self,
        examples: Sequence[Example],
        method: Callable[..., list[Tensor]],
        *arguments: object,
    ) -> list[Column]:
        """What `method` computes of each pack, cut into one array [S] per example."""
        packs = self._packs(examples)
        computed = self._pool.map(method, [(lane, *arguments) for lane in packs])
        out: list[Column] = [np.empty(0, dtype=np.float32)] * len(examples)
        for lane, of_lane in zip(packs, computed, strict=True):
            for row, amounts_S in zip(lane, of_lane, strict=True):
                sizes = np.bincount(row.episode_S, minlength=len(row.members))
                parts = np.split(amounts_S.numpy(), np.cumsum(sizes)[:-1])
                for member, part in zip(row.members, parts, strict=True):
                    out[member] = part
        return out

    def _packs(self, examples: Sequence[Example]) -> list[list[Pack]]:
        """The packs of each lane."""
        lanes = plan([e.length for e in examples], self._spec.update.micro_batch_tokens, LANES)
        return [[pack(examples, members) for members in lane] for lane in lanes]
