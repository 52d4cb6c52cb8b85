"""The warm start: imitation before reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agentrl_components.errors import SpecError
from agentrl_components.rollout.collector import RANDOM_POLICY, Call
from agentrl_components.run.context import RunContext
from agentrl_components.spec import WarmStart
from agentrl_components.trajectory.record import Ending, Trajectory
from agentrl_components.update.packing import Example
from agentrl_components.warmstart.conversations import conversations
from agentrl_components.warmstart.hindsight import (
    batches,
    cosine,
    imitation,
    in_hindsight,
    reached_goal,
)
from agentrl_envs.world import World


def imitate(context: RunContext) -> None:
    """Warm the policy up as the manifest says, and keep the result as checkpoint 0. Nothing
    happens where a checkpoint exists."""
    if context.restored:
        return
    warm = context.spec.warm_start
    if warm is not None:
        for number in range(warm.rounds if warm.algorithm == "filtered-imitation" else 1):
            learn(context, warm, SOURCES[warm.algorithm](context, warm, number))
            context.version += 1
        # The moments of imitation say nothing about the gradients to come.
        context.learner.clear_moments()
    context.save()


def learn(context: RunContext, warm: WarmStart, examples: Sequence[Example]) -> None:
    """Imitate `examples`, batch by batch."""
    plan = list(batches(len(examples), warm.batch, warm.epochs, context.spec.seed))
    with context.stage("warm start: imitate", len(plan)):
        for step, batch in enumerate(plan):
            context.pause_point()
            rate = cosine(step, len(plan), warm.learning_rate)
            context.learner.imitate([examples[i] for i in batch], rate)
            context.view.advance()


def play(context: RunContext, warm: WarmStart, number: int, version: int) -> list[Trajectory]:
    """Episodes of random play, or of the policy's own."""
    with context.stage("warm start: play"):
        drawn = context.crew.draw("train", warm.episodes, number)
        call = Call(
            drawn=drawn,
            samples=1,
            max_turns=warm.max_turns,
            temperature=context.spec.rollout.temperature,
            iteration=-1 - number,
            purpose="warm start" if version == RANDOM_POLICY else "warm start policy",
        )
        return [e for e in context.players.play(call, version) if e.ending is not Ending.LOST]


def hindsight(context: RunContext, warm: WarmStart, number: int) -> list[Example]:
    """Random play, relabelled with goals it happened to reach."""
    relabel = relabellers(context)
    played = play(context, warm, number, RANDOM_POLICY)
    reached: dict[str, set[tuple[str, str]]] = {}
    for episode in played:
        if (goal := reached_goal(episode, context.spec.seed)) is not None:
            opening = (episode.turns[0].observation, goal.phrase)
            reached.setdefault(episode.environment, set()).add(opening)
    reworded = {name: relabel[name](sorted(openings)) for name, openings in reached.items()}

    def reword(episode: Trajectory, goal: str) -> Sequence[int]:
        seen = reworded[episode.environment][episode.turns[0].observation, goal]
        return context.lead.dialogue.opening(context.crew.instructions[episode.environment], seen)

    told = [in_hindsight(e, context.spec.seed, reword) for e in played]
    weights = (warm.observation_weight, warm.path_weight)
    return [imitation(e, *weights) for e in told if e is not None]


def filtered(context: RunContext, warm: WarmStart, number: int) -> list[Example]:
    """The policy's own successes (AgentEvol, arXiv 2406.04151)."""
    played = play(context, warm, number, context.version)
    kept = [e for e in played if e.success]
    context.view.note(f"warm start: {len(kept)} of {len(played)} episodes succeeded")
    return [imitation(e, warm.observation_weight) for e in kept]


def given(context: RunContext, warm: WarmStart, number: int) -> list[Example]:
    """Conversations from a file."""
    del number
    assert warm.trajectories is not None  # a rule of the contract
    return conversations(
        warm.trajectories, context.lead.dialogue, context.spec, warm.observation_weight
    )


SOURCES: dict[str, Callable[[RunContext, WarmStart, int], list[Example]]] = {
    "hindsight": hindsight,
    "filtered-imitation": filtered,
    "sft": given,
}


Openings = Sequence[tuple[str, str]]
"""First observations, and the goals that they shall have."""


def relabellers(context: RunContext) -> dict[str, Callable[[Openings], dict[tuple[str, str], str]]]:
    """How each environment rewrites goals, many in one call, wherever it runs. Raises `SpecError`
    for one that cannot."""

    def relabel(world: World, openings: Openings) -> dict[tuple[str, str], str]:
        texts = context.crew.home.run(world.relabel(openings))
        return dict(zip(openings, texts, strict=True))

    for i, environment in enumerate(context.spec.environments):
        if not context.crew.worlds[environment.name].relabels:
            raise SpecError(
                [
                    "spec.warmStart.algorithm: hindsight needs environments that can rewrite a "
                    f"goal, and spec.environments[{i}] ({environment.name}) cannot; use "
                    "filtered-imitation or sft"
                ]
            )
    return {name: partial(relabel, world) for name, world in context.crew.worlds.items()}
