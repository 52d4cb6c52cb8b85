"""Estimate of an iteration's duration from stated throughputs.

Update: operations of the forward and backward passes (6 N per token and attention; arXiv
2001.08361, section 2.1) at a share of the device's peak. Rollout: reading weights and cached keys
and values once per decoded token, at a share of the peak bandwidth, plus the prefill of what the
environment says and its latency. Rollout and update alternate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.sharded.passes.pass_memory import PassSize, Recomputation
from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.devices import Device
from agentrl_pipelines.sizing.layout import Layout
from agentrl_pipelines.sizing.model_size import ModelSize
from agentrl_pipelines.sizing.sampler_memory import SamplerMemory
from agentrl_pipelines.sizing.workload import PhaseLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What an estimate assumes."""

    update_share: float = 0.30
    """Share of the peak operations per second that the update reaches (model FLOPs utilisation)."""
    prefill_share: float = 0.40
    """The same share for prefill."""
    decode_share: float = 0.50
    """Share of the peak memory bandwidth that decoding reaches."""
    hand_over: float = 10e9
    """Bytes per second of a weight hand-over."""
    turn_seconds: float = 0.02
    """Latency of an environment's step, in seconds."""
    trained_tokens: float | None = None
    """Tokens per second of all trainers together, in place of the estimate."""
    sampled_tokens: float | None = None
    """Sampled tokens per second of all engines together, in place of the estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds of an iteration."""

    rollout: float
    update: float
    hand_over: float

    @property
    def total(self) -> float:
        """Seconds of the whole iteration."""
        return self.rollout + self.update + self.hand_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimates durations of a run's phases."""

    spec: RunSpec
    shape: Architecture
    size: ModelSize
    layout: Layout
    device: Device
    engine: SamplerMemory
    again: Recomputation
    """What the backward pass computes again."""
    assumed: Throughput

    def of(self, load: PhaseLoad) -> Duration | None:
        """The duration of an iteration of a phase. None: the device's speed is unknown, and the
        throughputs are not stated."""
        stated = self.assumed.trained_tokens is not None and self.assumed.sampled_tokens is not None
        if not self.device.flops and not stated:
            return None
        return Duration(
            rollout=self._rollout(load),
            update=self._update(load),
            hand_over=self.handed_over() / self.assumed.hand_over,
        )

    def handed_over(self) -> int:
        """Bytes of a weight hand-over: on Ray with LoRA only those of the adapters, in float32;
        none for an engine that samples from the trainer's model. With `compute.sparseHandOver` at
        most as many."""
        if self.spec.compute.ray is not None and self.spec.model.lora is not None:
            return 4 * self.size.trainable
        return self.engine.weights * self.layout.tensor_parallel

    def operations(self, length: int) -> float:
        """Operations of a forward pass per token, in episodes of `length` tokens."""
        matrices = self.size.total - (0 if self.shape.tied else self.size.embedding)
        attention = 2 * self.shape.layers * self.shape.heads * self.shape.head_width * length
        return 2 * matrices + attention

    def passes(self, load: PhaseLoad) -> float:
        """Forward passes that the update of a token costs; a backward pass counts as two."""
        spec = self.spec
        once = 3 + self.again.cost(self.shape, PassSize(tokens=1)) / self.shape.layers
        algorithm = spec.algorithm
        models = 2 if algorithm.traits.needs_critic else 1
        # Before the update: log-probabilities of policy and reference policy, and values.
        before = (
            self._passed_before(load)
            + (algorithm.kl.coefficient > 0)
            + algorithm.traits.needs_critic
        )
        return models * once * spec.update.epochs + before

    def _passed_before(self, load: PhaseLoad) -> float:
        """Share of the episodes whose log-probabilities before the update take a pass of their own:
        see `Learner`."""
        spec = self.spec
        if spec.algorithm.importance_sampling.mode == "off":
            return 0.0
        if spec.update.epochs > 1 or (spec.model.lora and spec.model.lora.dropout):
            return 1.0
        return 1 - 1 / max(1, round(load.episodes / spec.update.mini_batch))

    def at_once(self, load: PhaseLoad) -> int:
        """Episodes in flight at the same time, over all engines."""
        return min(load.episodes, self.layout.engines * self._batch(load))

    def _batch(self, load: PhaseLoad) -> int:
        """Episodes in flight at the same time in an engine: as many as there are, as its cache
        holds, or as `rollout.concurrency` allows."""
        return min(
            math.ceil(load.episodes / self.layout.engines),
            max(1, self.engine.episodes(load.length)),
            self.spec.rollout.concurrency,
        )

    def _update(self, load: PhaseLoad) -> float:
        tokens = load.episodes * load.length
        if self.assumed.trained_tokens is not None:
            return tokens / self.assumed.trained_tokens
        speed = self.layout.ranks * self.device.flops * self.assumed.update_share
        return tokens * self.operations(load.length) * self.passes(load) / speed

    def _rollout(self, load: PhaseLoad) -> float:
        sampled = load.episodes * load.sampled
        batch = self._batch(load)
        rounds = math.ceil(load.episodes / (self.layout.engines * batch))
        waiting = rounds * load.turns * self.assumed.turn_seconds
        if self.assumed.sampled_tokens is not None:
            return sampled / self.assumed.sampled_tokens + waiting
        read = self.engine.read + batch * self.engine.token * load.length / 2
        step = read / (self.device.bandwidth * self.assumed.decode_share)
        flops = self.device.flops * self.layout.tensor_parallel
        step = max(
            step, batch * self.operations(load.length) / (flops * self.assumed.prefill_share)
        )
        decode = sampled / (self.layout.engines * batch) * step
        prefill = load.episodes * (load.length - load.sampled) * self.operations(load.length)
        return (
            decode + prefill / (self.layout.engines * flops * self.assumed.prefill_share) + waiting
        )
