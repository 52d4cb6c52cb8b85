"""How many episodes and tokens a run plays and trains on, at most."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.spec import Environment, RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLoad:
    """One phase."""

    turns: int
    """Turn limit of an episode in the environment that allows the most turns."""
    iterations: int
    episodes: int
    """Episodes of an iteration."""
    length: int
    """Tokens of an episode."""
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
    limits = [
        max(_turn_limit(one, index, phase.max_turns) for one in spec.environments)
        for index, phase in enumerate(spec.horizon.phases)
    ]
    longest = max(limits)
    loads = []
    for phase, turns in zip(spec.horizon.phases, limits, strict=True):
        length = spec.model.context * turns // longest
        if tokens_per_turn is not None:
            length = min(spec.model.context, turns * tokens_per_turn)
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


def _turn_limit(environment: Environment, phase: int, scheduled: int) -> int:
    """The turn limit of an environment in a phase: its own, or the scheduled one."""
    own = environment.max_turns
    return own[min(phase, len(own) - 1)] if own else scheduled
