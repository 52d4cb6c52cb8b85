"""Warm start: supervised learning on demonstrations before reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from agentrl_components.errors import RunError, SpecError
from agentrl_components.rollout.metrics import completed
from agentrl_components.rollout.request import RANDOM_POLICY, CollectRequest
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.learning_rate import cosine_decay, warm_start_learning_rate
from agentrl_components.spec import WarmStart
from agentrl_components.spec.rules.warmstart import (
    cannot_rewrite_goals,
    imitates_without_thoughts,
)
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.learner import Imitated
from agentrl_components.update.packing import Example
from agentrl_components.warmstart.conversations import conversation_examples
from agentrl_components.warmstart.hindsight import hindsight_episode, reached_goal
from agentrl_components.warmstart.imitation import (
    imitation_example,
    shuffled_batches,
    within_context,
)
from agentrl_envs.world import World

Openings = Sequence[tuple[str, str]]
"""Pairs of a first observation and the goal that replaces the one in it."""


Source = Callable[[int], Sequence[Example]]
"""The examples of a round."""


def open_source(context: RunContext) -> Source | None:
    """Where the examples of the run's warm start come from. None: it has no warm start, or the run
    was resumed from a checkpoint. Raises `SpecError` for what cannot be imitated; nothing was
    played until then."""
    warm = context.spec.warm_start
    return None if warm is None or context.resumed else SOURCES[warm.algorithm](context, warm)


def warm_start(context: RunContext, source: Source | None) -> None:
    """Train the policy as `warmStart` says on examples of `source`, if there is one, and save the
    result as checkpoint 0. Does nothing if the run was resumed from a checkpoint.

    Raises `Stopped` before it begins, or before any of its optimizer steps, if the run should
    end."""
    if context.resumed:
        return
    context.check_stop()
    warm = context.spec.warm_start
    if warm is not None and source is not None:
        steps = 0
        for number in range(warm.rounds if warm.algorithm == "filtered-imitation" else 1):
            steps += learn(context, warm, source(number), steps)
            context.training.version += 1
        # Also resets the optimizer: moments of imitation say nothing about policy gradients.
        context.learner.set_start()
    context.save()


def learn(context: RunContext, warm: WarmStart, examples: Sequence[Example], first: int = 0) -> int:
    """Train on `examples`, batch by batch, and return the number of optimizer steps. The tracker
    gets their metrics, numbered from `first`.

    Raises `RunError` if every step was skipped because its gradient was not finite."""
    losses: list[float] = []
    skipped = 0
    plan = list(shuffled_batches(len(examples), warm.batch, warm.epochs, context.spec.seed))
    highest = warm_start_learning_rate(context.spec, warm)
    with context.stage("warm start: imitate", len(plan)):
        for step, batch in enumerate(plan):
            context.check_stop()
            rate = cosine_decay(step, len(plan), highest)
            last = context.learner.imitate([examples[i] for i in batch], rate)
            losses.append(last.loss)
            skipped += last.skipped
            context.tracker.metrics(first + step, warm_start_metrics(last, skipped))
            context.view.advance()
    if losses and skipped == len(losses):
        raise RunError(
            f"warm start: all {skipped} optimizer steps were skipped, because their gradients were "
            "not finite; set spec.warmStart.learningRate to less, and check that the weights of "
            "spec.model.source are finite"
        )
    context.view.note(warm_start_summary(losses, skipped))
    return len(losses)


def warm_start_metrics(last: Imitated, skipped: int) -> dict[str, float]:
    """The metrics of an optimizer step. `skipped`: how many of the round were skipped so far."""
    counted = {"warmstart/skipped_steps": float(skipped)} if skipped else {}
    return {"warmstart/loss": last.loss} | counted


def warm_start_summary(losses: Sequence[float], skipped: int) -> str:
    """One line about the optimizer steps of a round: the loss at both ends, and how many steps were
    skipped."""
    if not losses:
        return "warm start: there was nothing to imitate; the weights are as before"
    tenth = max(1, len(losses) // 10)
    before, after = fmean(losses[:tenth]), fmean(losses[-tenth:])
    summary = (
        f"warm start: loss {before:.4g} at first and {after:.4g} at last, in {len(losses)} steps"
    )
    if skipped:
        summary += f"; {skipped} were skipped, as their gradients were not finite"
    return summary


def play(context: RunContext, warm: WarmStart, number: int, version: int) -> list[Trajectory]:
    """Completed episodes of round `number`, by the policy or the random policy."""
    with context.stage("warm start: play"):
        request = CollectRequest(
            tasks=context.draw("train", warm.episodes, number),
            samples=1,
            max_turns=warm.max_turns,
            temperature=context.spec.rollout.temperature,
            iteration=-1 - number,
            purpose="warm start" if version == RANDOM_POLICY else "warm start policy",
        )
        return completed(context.collector.collect(request, version))


def from_hindsight(context: RunContext, warm: WarmStart) -> Source:
    """Random play, relabelled with goals that it happened to reach (hindsight experience replay,
    arXiv 1707.01495)."""
    relabel = relabellers(context)
    if context.workers.dialogue.thinks:
        raise SpecError([str(imitates_without_thoughts(context.spec.model.source))])

    def examples(number: int) -> list[Example]:
        episodes = play(context, warm, number, RANDOM_POLICY)
        reached: dict[str, set[tuple[str, str]]] = {}
        for episode in episodes:
            if (goal := reached_goal(episode, context.spec.seed)) is not None:
                opening = (episode.turns[0].observation, goal.phrase)
                reached.setdefault(episode.environment, set()).add(opening)
        reworded = {name: relabel[name](sorted(openings)) for name, openings in reached.items()}

        def reword(episode: Trajectory, goal: str) -> Sequence[int]:
            seen = reworded[episode.environment][episode.turns[0].observation, goal]
            return context.workers.dialogue.opening(
                context.workers.instructions[episode.environment], seen
            )

        relabelled = [
            one
            for episode in episodes
            if (one := hindsight_episode(episode, context.spec.seed, reword)) is not None
        ]
        context.view.note(
            f"warm start: {len(relabelled)} of {len(episodes)} episodes reached a goal"
        )
        weights = (warm.observation_weight, warm.path_weight)
        return [imitation_example(e, *weights) for e in readable(context, relabelled)]

    return examples


def from_own_successes(context: RunContext, warm: WarmStart) -> Source:
    """The policy's own successful episodes of the round. AgentEvol (arXiv 2406.04151) adds base
    data to them in each round."""

    def examples(number: int) -> list[Example]:
        episodes = play(context, warm, number, context.training.version)
        successes = [e for e in episodes if e.success]
        context.view.note(f"warm start: {len(successes)} of {len(episodes)} episodes succeeded")
        fitting = readable(context, successes)
        return [imitation_example(e, warm.observation_weight) for e in fitting]

    return examples


def readable(context: RunContext, episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """The episodes that fit `model.context`; the others are counted in a note."""
    longest = context.spec.model.context
    fitting = within_context(episodes, longest)
    if len(fitting) < len(episodes):
        context.view.note(
            f"warm start: {len(episodes) - len(fitting)} of them do not fit the context of "
            f"{longest} tokens and are left out; raise spec.model.context"
        )
    return fitting


def from_file(context: RunContext, warm: WarmStart) -> Source:
    """Conversations from the file `warmStart.trajectories`, which the run has read."""
    read, context.conversations = context.conversations, ()
    dialogue, longest = context.workers.dialogue, context.spec.model.context
    examples = conversation_examples(read, dialogue, longest, warm.observation_weight)
    return lambda _: examples


SOURCES: dict[str, Callable[[RunContext, WarmStart], Source]] = {
    "hindsight": from_hindsight,
    "filtered-imitation": from_own_successes,
    "sft": from_file,
}
"""Opens the source of a warm start, by `warmStart.algorithm`."""


def relabellers(context: RunContext) -> dict[str, Callable[[Openings], dict[tuple[str, str], str]]]:
    """For each environment a function that rewrites goals, many in one call. Raises `SpecError` for
    an environment that cannot rewrite goals."""

    def relabel(world: World, openings: Openings) -> dict[tuple[str, str], str]:
        texts = context.workers.loop.run(world.relabel(openings))
        return dict(zip(openings, texts, strict=True))

    for i, environment in enumerate(context.spec.environments):
        if not context.workers.worlds[environment.name].relabels:
            raise SpecError([str(cannot_rewrite_goals(i, environment.name))])
    return {name: partial(relabel, world) for name, world in context.workers.worlds.items()}
