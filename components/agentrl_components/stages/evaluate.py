"""evaluate: play held-out tasks and say how well it went."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentrl_components import layout, trajectory_codec
from agentrl_components.context import RunContext
from agentrl_components.evaluation import Evaluated, Share, share, summarise
from agentrl_components.players import RANDOM_POLICY, Call
from agentrl_components.tasks import Drawn
from agentrl_components.trajectory import Trajectory

SHOWN = 8
"""Episodes kept for people to read, of each evaluation: the same tasks every time."""


def evaluate(context: RunContext, name: str) -> Evaluated:
    """Evaluate the policy as it is, or the random one where `name` is "random". What the store has under
    that name already is not played again."""
    key = layout.evaluation(name)
    if context.store.exists(key):
        return Evaluated.model_validate_json(context.store.get(key))
    with context.stage(f"evaluate: {name}"):
        drawn = heldout(context)
        episodes = play(context, drawn, name, None)
        result = summarise(name, episodes, context.spec.evaluation.samples, context.spec.seed)
        result = result.model_copy(update={"turn_sweep": sweep(context, drawn, name)})
        shown = [e for e in episodes if e.group < SHOWN and e.sample == 0]
        context.store.replace(layout.episodes(name), trajectory_codec.encode(shown))
        context.store.replace(key, result.model_dump_json(indent=1).encode())
    context.tracker.metrics(
        len(context.history),
        {f"heldout/{name}": result.success}
        if name == "random"
        else {"heldout/success": result.success, "heldout/wellformed": result.wellformed},
    )
    context.tracker.episodes(len(context.history), f"heldout {name}", shown)
    return result


def heldout(context: RunContext) -> list[Drawn]:
    """The held-out tasks of this run: always the same."""
    if context.heldout is None:
        context.heldout = asyncio.run(
            context.source.draw("heldout", context.spec.evaluation.tasks)
        )
    return context.heldout


def play(
    context: RunContext, drawn: Sequence[Drawn], name: str, max_turns: int | None
) -> list[Trajectory]:
    """The episodes of one evaluation. Every policy meets the same random numbers."""
    evaluation = context.spec.evaluation
    random = name == "random"
    call = Call(
        drawn=drawn,
        samples=evaluation.samples,
        max_turns=max_turns or evaluation.max_turns or context.spec.horizon.phases[-1].max_turns,
        temperature=evaluation.temperature,
        iteration=-1,
        purpose="random" if random else "evaluation",
    )
    return context.players.play(call, RANDOM_POLICY if random else context.version)


def sweep(context: RunContext, drawn: Sequence[Drawn], name: str) -> dict[int, Share]:
    """Success when so many turns are allowed (test-time scaling, arXiv 2509.08755, section 4.4)."""
    return {
        turns: share(play(context, drawn, name, turns), context.spec.seed)
        for turns in context.spec.evaluation.turn_sweep
    }
