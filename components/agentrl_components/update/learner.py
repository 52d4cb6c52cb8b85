"""One update: from the episodes of an iteration to new weights.

Episodes get advantages and log-probabilities, are shuffled into mini-batches, and every mini-batch
gives one optimizer step.

Legend: T tokens of an episode, S sampled tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from agentrl_components.schedule.learning_rate import critic_learning_rate
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_components.update.advantages.episodes import EpisodeView, scatter_to_tokens
from agentrl_components.update.advantages.registry import (
    estimate_advantages,
    groups_without_signal,
)
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import (
    Imitation,
    ModelName,
    PolicyGradient,
    Sums,
    ValueRegression,
    accumulate,
)
from agentrl_components.update.packing import Example, example
from agentrl_components.update.trainers import Column, Trainers


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The result of an update."""

    metrics: dict[str, float]
    """Means over sampled tokens, by metric name. `update/grad_norm` is missing if the policy took
    no step, `update/skipped_steps` if every norm was finite, and `update/all_skipped` unless no
    norm of the policy was."""
    steps: int
    """Optimizer steps of the policy, including those that were skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitated:
    """The result of an optimizer step of imitation."""

    loss: float
    """Weighted mean over all tokens, nats."""
    skipped: bool
    """The gradient was not finite, and no weight changed."""


class Learner:
    """Computes what to train on and drives the trainers."""

    def __init__(self, spec: RunSpec, trainers: Trainers) -> None:
        self.spec = spec
        self.trainers = trainers
        self.traits = spec.algorithm.traits

    def update(
        self,
        episodes: Sequence[Trajectory],
        iteration: int,
        rate: float,
        version: int | None = None,
    ) -> Updated:
        """Train on the episodes of `iteration` with learning rate `rate`. `version`: that of the
        present weights; None: all tokens were sampled with them."""
        algorithm = self.spec.algorithm
        warming_up = self.traits.needs_critic and iteration < algorithm.critic.warmup_iterations
        trainable = self._trainable(episodes)
        columns = self._columns(trainable, iteration, version, critic_only=warming_up)
        examples = [example(e, c) for e, c in zip(trainable, columns, strict=True)]
        critic_rate = critic_learning_rate(self.spec, iteration)
        sums: Sums = {}
        norms: dict[ModelName, list[float]] = {"policy": [], "critic": []}
        for batch in self._mini_batches(len(examples), iteration):
            chosen = [examples[i] for i in batch]
            denominators = Denominators(
                tokens=max(1, sum(len(e.sampled) for e in chosen)),
                episodes=len(chosen),
                token_limit=self.spec.model.context,
            )
            if self.traits.needs_critic:
                value = ValueRegression(
                    value_clip=algorithm.critic.value_clip, denominators=denominators
                )
                accumulate(sums, self.trainers.differentiate(value, chosen))
                norms["critic"].append(self.trainers.step("critic", critic_rate))
            if warming_up:
                continue
            objective = PolicyGradient(
                algorithm=algorithm,
                denominators=denominators,
                chunk=self.spec.update.logits_chunk,
                unmoved=not any(map(isfinite, norms["policy"])),
            )
            accumulate(sums, self.trainers.differentiate(objective, chosen))
            norms["policy"].append(self.trainers.step("policy", rate))
        metrics = self._metrics(examples, sums, norms, rate)
        return Updated(metrics=metrics, steps=len(norms["policy"]))

    def imitate(self, examples: Sequence[Example], rate: float) -> Imitated:
        """One optimizer step of weighted imitation on `examples`."""
        total = float(sum(e.columns["weight"].sum() for e in examples))
        objective = Imitation(total_weight=total, chunk=self.spec.update.logits_chunk)
        sums = self.trainers.differentiate(objective, examples)
        norm = self.trainers.step("policy", rate)
        return Imitated(loss=sums["loss"] / total, skipped=not isfinite(norm))

    def silent_groups(self, played: Sequence[Trajectory]) -> frozenset[int]:
        """Groups without a learning signal, if the manifest drops them; else none."""
        if not self.spec.algorithm.drops_groups:
            return frozenset()
        return groups_without_signal(self._views(played), self.spec.algorithm)

    def set_start(self) -> None:
        """Take the current policy as the start of reinforcement learning, after a warm start."""
        self.trainers.clear_moments("policy")
        self.trainers.set_start()

    @property
    def has_reference(self) -> bool:
        """Whether the loss has a KL penalty towards a reference policy."""
        return self.spec.algorithm.kl.coefficient > 0

    def _metrics(
        self,
        examples: Sequence[Example],
        sums: Sums,
        norms: Mapping[ModelName, Sequence[float]],
        rate: float,
    ) -> dict[str, float]:
        """Means per sampled token of the sums of all mini-batches, and what the gradient norms of
        the optimizer steps say."""
        sums = dict(sums)
        tokens = self.spec.update.epochs * sum(len(e.sampled) for e in examples)
        counted = {"mismatch_kl": sums.pop("fresh", 0.0), "lag_kl": sums.pop("stale", 0.0)}
        # There are no sums without an example, and each example has a sampled token.
        metrics = {
            f"update/{name}": value / counted.get(name, tokens)
            for name, value in sums.items()
            if counted.get(name, tokens)
        }
        if norms["policy"]:
            metrics["update/grad_norm"] = float(np.mean(norms["policy"]))
        # Trainers skip a step whose norm is not finite.
        skipped = sum(not isfinite(norm) for of_model in norms.values() for norm in of_model)
        if skipped:
            metrics["update/skipped_steps"] = float(skipped)
        if norms["policy"] and not any(map(isfinite, norms["policy"])):
            metrics["update/all_skipped"] = 1.0
        metrics["update/episodes"] = float(len(examples))
        metrics["update/tokens"] = float(tokens)
        metrics["update/learning_rate"] = rate
        return metrics

    def _trainable(self, episodes: Sequence[Trajectory]) -> list[Trajectory]:
        """Episodes to train on: not lost, with a sampled token, and not in a dropped group."""
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

    def _columns(
        self,
        episodes: Sequence[Trajectory],
        iteration: int,
        version: int | None,
        *,
        critic_only: bool,
    ) -> list[dict[str, Column]]:
        """The columns that the objectives read, by episode; `critic_only`: only the critic's."""
        if not episodes:
            return []
        columns: list[dict[str, Column]] = [{"sampler": e.logprobs[e.mask]} for e in episodes]
        bare = [example(e, {}) for e in episodes]
        algorithm = self.spec.algorithm
        if not critic_only:
            for batch in self._passed_before(len(bare), iteration):
                old = self.trainers.logprobs([bare[i] for i in batch])
                _add([columns[i] for i in batch], "old", old)
        if self.has_reference and not critic_only:
            _add(columns, "reference", self.trainers.logprobs(bare, reference=True))
        ages = [e.versions != version for e in episodes] if version is not None else []
        if any(map(np.any, ages)):
            _add(columns, "stale", [age.astype(np.float32) for age in ages])
        values = None
        if self.traits.needs_critic:
            _add(columns, "value", self.trainers.values(bare))
            values = [
                scatter_to_tokens(e.mask, c["value"])
                for e, c in zip(episodes, columns, strict=True)
            ]
        result = estimate_advantages(self._views(episodes, values), algorithm)
        for i, episode in enumerate(episodes):
            columns[i]["advantage"] = result.advantages[i][episode.mask]
            if result.returns is not None:
                columns[i]["return"] = result.returns[i][episode.mask]
        return columns

    def _passed_before(self, count: int, iteration: int) -> list[list[int]]:
        """The mini-batches of the first epoch whose log-probabilities before the update are
        computed ahead. The first step's are those of its pass with the gradient, unless a later
        epoch compares with them too, or that pass has dropout.

        Each mini-batch is passed alone, as with its gradient: other examples beside it change its
        rounding in bfloat16, by more than the clip of GSPO."""
        spec = self.spec
        if spec.algorithm.importance_sampling.mode == "off":
            return []
        first_epoch = list(self._epoch(count, iteration, 0))
        drops = spec.model.lora is not None and spec.model.lora.dropout > 0
        return first_epoch if spec.update.epochs > 1 or drops else first_epoch[1:]

    def _mini_batches(self, count: int, iteration: int) -> Iterator[list[int]]:
        """Indices of the mini-batches of all epochs, of `count` examples."""
        for epoch in range(self.spec.update.epochs):
            yield from self._epoch(count, iteration, epoch)

    def _epoch(self, count: int, iteration: int, epoch: int) -> Iterator[list[int]]:
        """Indices of the mini-batches of an epoch: a permutation of its own of all examples, cut
        into parts of nearly equal size."""
        batches = max(1, round(count / self.spec.update.mini_batch))
        seed = derive(self.spec.seed, "shuffle", iteration, epoch)
        order = np.random.default_rng(seed).permutation(count)
        yield from ([int(i) for i in part] for part in np.array_split(order, batches) if len(part))


def _add(columns: Sequence[dict[str, Column]], name: str, amounts: Sequence[Column]) -> None:
    """Add a column to every example."""
    for of_example, amount in zip(columns, amounts, strict=True):
        of_example[name] = amount
