"""Episodes in, new weights out.

An iteration's episodes become advantages, advantages become mini-batches, a mini-batch becomes
packs on lanes, and the lanes' gradients, added in a fixed order, become one step of AdamW.

Legend: T tokens of an episode, S sampled tokens, P trainable parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.storage import keys, tensors
from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_components.update.advantages import ESTIMATORS, EpisodeView, zero_variance
from agentrl_components.update.flat_parameters import LANES, Shared
from agentrl_components.update.losses import Denominators
from agentrl_components.update.objectives import (
    Imitation,
    PolicyGradient,
    Sums,
    ValueRegression,
    accumulate,
)
from agentrl_components.update.optimizer import AdamW
from agentrl_components.update.packing import Example, Pack, example, pack, plan
from agentrl_components.workers.pool import Pool
from agentrl_components.workers.worker import Objective, Worker

Column = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """What an update did."""

    metrics: dict[str, float]
    steps: int
    """Optimizer steps."""


class Optimizer:
    """AdamW over one master vector [P], with lanes for gradients."""

    def __init__(self, shared: Shared, spec: RunSpec) -> None:
        self._shared = shared
        self.adamw = AdamW(
            shared.vector, beta2=spec.update.beta2, weight_decay=spec.update.weight_decay
        )
        self._limit = spec.update.max_grad_norm

    def step(self, learning_rate: float) -> float:
        """Move the vector by the lanes' sum. Returns the gradient's norm before clipping; a norm
        that is not finite moves nothing."""
        gradient = self._shared.lanes[0].clone()
        for lane in self._shared.lanes[1:]:
            gradient += lane
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm):
            return norm
        gradient *= min(1.0, self._limit / (norm + 1e-6))
        self.adamw.step(gradient, learning_rate)
        return norm

    def state(self, name: str) -> tensors.Files:
        """Master weights and moments, as files of a checkpoint."""
        master = f"{keys.TRAINER}{name}-master.safetensors"
        return tensors.pack_optimizer(self.adamw.state_dict(), name) | {
            master: tensors.pack({"vector": self._shared.vector}, master)
        }

    @torch.no_grad()
    def restore(self, files: Mapping[str, bytes | Path], name: str) -> None:
        """Weights in place, so that every process has them."""
        master = tensors.unpack(files[f"{keys.TRAINER}{name}-master.safetensors"])
        self._shared.vector.copy_(master["vector"])
        self.adamw.load_state_dict(tensors.unpack_optimizer(files, name))

    def forget(self) -> None:
        """Start anew with the moments, as when the objective changes."""
        self.adamw.clear()


class Learner:
    """Owns the optimizers; asks the pool for gradients."""

    def __init__(self, spec: RunSpec, lead: Worker, pool: Pool) -> None:
        self.spec = spec
        self._pool = pool
        self.policy = Optimizer(lead.policy.shared, spec)
        self.critic = Optimizer(lead.values.shared, spec) if lead.critic is not None else None
        self.estimator = ESTIMATORS[spec.algorithm.name]

    def update(self, episodes: Sequence[Trajectory], iteration: int, rate: float) -> Updated:
        """Learn from an iteration's episodes at step size `rate`."""
        algorithm, update = self.spec.algorithm, self.spec.update
        kept = self._trainable(episodes)
        examples = self._examples(kept)
        sums: Sums = {}
        norms: list[float] = []
        for batch in self._mini_batches(len(examples), iteration):
            chosen = [examples[i] for i in batch]
            denominators = Denominators(
                tokens=max(1, sum(len(e.sampled) for e in chosen)),
                episodes=len(chosen),
                token_limit=self.spec.model.context,
            )
            if self.critic is not None:
                value = ValueRegression(
                    value_clip=algorithm.critic.value_clip, denominators=denominators
                )
                accumulate(sums, self._lanes(value, chosen))
                self.critic.step(algorithm.critic.learning_rate)
            if iteration < algorithm.critic.warmup_iterations and self.critic is not None:
                continue
            objective = PolicyGradient(
                algorithm=algorithm,
                denominators=denominators,
                chunk=update.logits_chunk,
                unmoved=not norms,
            )
            accumulate(sums, self._lanes(objective, chosen))
            norms.append(self.policy.step(rate))
        tokens = max(1, update.epochs * sum(len(e.sampled) for e in examples))
        measured = sums.pop("measured", 0.0)
        metrics = {f"update/{name}": value / tokens for name, value in sums.items()}
        if measured:
            metrics["update/mismatch_kl"] = sums["mismatch_kl"] / measured
        metrics["update/grad_norm"] = float(np.mean(norms)) if norms else 0.0
        metrics["update/episodes"] = float(len(examples))
        metrics["update/tokens"] = float(tokens)
        metrics["update/learning_rate"] = rate
        return Updated(metrics=metrics, steps=len(norms))

    def silent_groups(self, played: Sequence[Trajectory]) -> frozenset[int]:
        """Groups whose episodes all earned the same, where these are left out; else none."""
        if not (self.estimator.needs_group and self.spec.algorithm.drop_zero_variance):
            return frozenset()
        return zero_variance(self._views(played))

    def state(self) -> tensors.Files:
        """What a checkpoint needs of the learner: master weights and optimizers."""
        files = self.policy.state("optimizer")
        return files | self.critic.state("critic") if self.critic is not None else files

    def restore(self, files: Mapping[str, bytes | Path]) -> None:
        """The opposite of `state`."""
        self.policy.restore(files, "optimizer")
        if self.critic is not None:
            self.critic.restore(files, "critic")

    def imitate(self, examples: Sequence[Example], rate: float) -> float:
        """One step of weighted imitation over one batch. Returns its mean loss."""
        total = float(sum(e.columns["weight"].sum() for e in examples))
        objective = Imitation(total_weight=total, chunk=self.spec.update.logits_chunk)
        sums = self._lanes(objective, examples)
        self.policy.step(rate)
        return sums["loss"] / total

    def _trainable(self, episodes: Sequence[Trajectory]) -> list[Trajectory]:
        """Episodes that carry a gradient: played to an end, with a token of the agent's own, and
        in a group that says something."""
        played = [e for e in episodes if e.ending is not Ending.LOST and e.num_sampled]
        silent = self.silent_groups(played)
        return [e for e in played if e.group not in silent]

    def _views(
        self, episodes: Sequence[Trajectory], values: Sequence[Column] | None = None
    ) -> list[EpisodeView]:
        reward = self.spec.algorithm.reward
        if values is None:
            return [EpisodeView.of(e, reward) for e in episodes]
        return [EpisodeView.of(e, reward, values=v) for e, v in zip(episodes, values, strict=True)]

    def _examples(self, episodes: Sequence[Trajectory]) -> list[Example]:
        """Episodes with their advantages and whatever else the loss reads."""
        if not episodes:
            return []
        columns: list[dict[str, Column]] = [{"sampler": e.logprobs[e.mask]} for e in episodes]
        bare = [example(e, c) for e, c in zip(episodes, columns, strict=True)]
        algorithm = self.spec.algorithm
        corrected = algorithm.importance_sampling.mode != "off"
        scored = corrected or algorithm.kl.coefficient or self.estimator.needs_critic
        packs = self._packs(bare) if scored else []
        if corrected:
            self._fill(columns, "old", packs, Worker.logprobs, False)
        if algorithm.kl.coefficient:
            self._fill(columns, "reference", packs, Worker.logprobs, True)
        values = None
        if self.estimator.needs_critic:
            self._fill(columns, "value", packs, Worker.estimates)
            values = [scattered(e, c["value"]) for e, c in zip(episodes, columns, strict=True)]
        result = self.estimator.estimate(self._views(episodes, values), algorithm)
        for i, episode in enumerate(episodes):
            columns[i]["advantage"] = result.advantages[i][episode.mask]
            if result.returns is not None:
                columns[i]["return"] = result.returns[i][episode.mask]
        return [replace(e, columns=c) for e, c in zip(bare, columns, strict=True)]

    def _fill(
        self,
        columns: Sequence[dict[str, Column]],
        name: str,
        packs: Sequence[Sequence[Pack]],
        method: Callable[..., list[Tensor]],
        *arguments: object,
    ) -> None:
        """Add a column that the workers compute, pack by pack."""
        found = self._pool.map(method, [(lane, *arguments) for lane in packs])
        for lane, answers in zip(packs, found, strict=True):
            for row, answer in zip(lane, answers, strict=True):
                sizes = np.bincount(row.episode_S, minlength=len(row.members))
                parts = np.split(answer.numpy(), np.cumsum(sizes)[:-1])
                for member, part in zip(row.members, parts, strict=True):
                    columns[member][name] = part

    def _mini_batches(self, count: int, iteration: int) -> Iterator[list[int]]:
        """Every episode once per epoch, in an order of its own, in batches of nearly equal size."""
        batches = max(1, round(count / self.spec.update.mini_batch))
        for epoch in range(self.spec.update.epochs):
            seed = derive(self.spec.seed, "shuffle", iteration, epoch)
            order = np.random.default_rng(seed).permutation(count)
            yield from (
                [int(i) for i in part] for part in np.array_split(order, batches) if len(part)
            )

    def _lanes(self, objective: Objective, examples: Sequence[Example]) -> Sums:
        """The gradient of `objective` over `examples`, left in the lanes."""
        calls = [(objective, lane, number) for number, lane in enumerate(self._packs(examples))]
        total: Sums = {}
        for sums in self._pool.map(Worker.differentiate, calls):
            accumulate(total, sums)
        return total

    def _packs(self, examples: Sequence[Example]) -> list[list[Pack]]:
        """The packs of each lane."""
        lanes = plan([e.length for e in examples], self.spec.update.micro_batch_tokens, LANES)
        return [[pack(examples, members) for members in lane] for lane in lanes]


def scattered(episode: Trajectory, values_S: Column) -> Column:
    """Values [T] of an episode from those of its sampled tokens."""
    out = np.zeros(len(episode.ids), dtype=np.float32)
    out[episode.mask] = values_S
    return out
