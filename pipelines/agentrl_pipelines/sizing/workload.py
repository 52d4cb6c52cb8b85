"""How many episodes and tokens a run plays and trains on, at most."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.spec import RunSpec
from agentrl_components.spec.batches import IN_TRAINING, batches, most_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Episodes that the model plays at the same time, as far as there is room."""

    episodes: int
    length: int
    """Tokens of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLoad(Load):
    """One phase. Its episodes are those of an iteration."""

    turns: int
    """Turn limit of an episode in the environment that allows the most turns."""
    iterations: int
    sampled: int
    """Tokens of an episode that the model samples."""

    @property
    def tokens(self) -> int:
        """Tokens of all episodes of the phase."""
        return self.iterations * self.episodes * self.length


def phase_loads(spec: RunSpec, tokens_per_turn: int | None = None) -> list[PhaseLoad]:
    """Every phase, with every episode using all its turns and every reply as long as allowed.

    `tokens_per_turn` counts a reply and the observation after it. Without it, an episode of the
    longest phase fills `model.context`, and episodes of shorter phases are shorter in proportion to
    their turns."""
    loads = []
    for index, phase in enumerate(spec.horizon.phases):
        turns = most_turns(spec, index)
        length = _length(spec, turns, tokens_per_turn)
        loads.append(
            PhaseLoad(
                turns=turns,
                iterations=phase.iterations,
                episodes=spec.rollout.tasks * spec.rollout.group_size,
                length=length,
                sampled=min(length, turns * spec.rollout.max_tokens_per_turn),
            )
        )
    return loads


def other_loads(spec: RunSpec, tokens_per_turn: int | None = None) -> list[Load]:
    """Evaluations, and a warm start whose episodes the model plays. `tokens_per_turn` is as in
    `phase_loads`."""
    return [
        Load(episodes=one.episodes, length=_length(spec, one.turns, tokens_per_turn))
        for one in batches(spec)
        if one.sampled and one.when != IN_TRAINING
    ]


def _length(spec: RunSpec, turns: int, tokens_per_turn: int | None) -> int:
    """Tokens of an episode of so many turns."""
    if tokens_per_turn is not None:
        return min(spec.model.context, turns * tokens_per_turn)
    longest = max(most_turns(spec, phase) for phase in range(len(spec.horizon.phases)))
    return min(spec.model.context, spec.model.context * turns // longest)
