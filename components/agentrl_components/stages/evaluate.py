"""evaluate: play held-out tasks and say how well it went."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.evaluation.heldout import RANDOM, exam
from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.rollout.collector import RANDOM_POLICY
from agentrl_components.rollout.tasks import Drawn
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.decision import Decision
from agentrl_components.storage import keys
from agentrl_components.storage.records import Found, checked
from agentrl_components.tracking import backfill
from agentrl_components.trajectory import codec

AFTER = "after"
"""The name of the evaluation at the end of the run."""
SHOWN = 8
"""Episodes kept for people to read, of each evaluation: the same tasks every time."""


def evaluate(context: RunContext, name: str) -> Evaluated:
    """Evaluate the policy as it is, or the random one where `name` is "random". What the store
    has under that name already is not played again."""
    key = keys.evaluation(name)
    if context.store.exists(key):
        return kept(context, checked(context.store, key, Evaluated))
    version = RANDOM_POLICY if name == RANDOM else context.version
    with context.stage(f"evaluate: {name}"):
        result, episodes = exam(context.spec, heldout(context)).sit(
            name, lambda call: context.players.play(call, version)
        )
        shown = [e for e in episodes if e.group < SHOWN and e.sample == 0]
        context.store.replace(keys.episodes(name), codec.encode(shown))
        context.store.replace(key, result.model_dump_json(indent=1).encode())
    at, metrics = backfill.evaluated(result, len(context.history))
    context.tracker.metrics(at, metrics)
    context.tracker.episodes(at, backfill.title(name), shown)
    return kept(context, result)


def kept(context: RunContext, result: Evaluated) -> Evaluated:
    """The result, which the run's standing shows unless it is the random policy's."""
    if result.name != RANDOM:
        known = {field: getattr(result, field) for field in Found.model_fields}
        context.journal.evaluated(Found(**known))
    return result


def evaluate_phase(context: RunContext, decision: Decision) -> Evaluated:
    """Evaluate the policy that a phase ended with; `decision` is what follows it."""
    finished = decision.action == "finish"
    return evaluate(context, AFTER if finished else keys.evaluation_after(len(context.history)))


def heldout(context: RunContext) -> Sequence[Drawn]:
    """The held-out tasks of this run: always the same."""
    if context.heldout is None:
        context.heldout = context.crew.draw("heldout", context.spec.evaluation.tasks)
    return context.heldout
