"""evaluate: play held-out tasks and measure success."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.evaluation.best_checkpoint import name_at_phase_end
from agentrl_components.evaluation.heldout import RANDOM, heldout_evaluation
from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.rollout.request import RANDOM_POLICY
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.schedule.record import Decision, IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.records import HeldoutSummary, load_record
from agentrl_components.tracking import backfill
from agentrl_components.trajectory import codec

KEPT_GROUPS = 8
"""Tasks of each evaluation whose first episode is kept for people to read: always the same ones."""


def evaluate(context: RunContext, name: str, *, between: bool = True) -> HeldoutResult:
    """Evaluate the current policy, or the random policy if `name` is "random". A result that the
    store holds under that name is returned without playing.

    `between`: a checkpoint covers all iterations. Then, if the run should end, raises `Stopped` in
    place of playing."""
    key = keys.evaluation(name)
    if context.store.exists(key):
        return _noted(context, load_record(context.store, key, HeldoutResult))
    if between:
        context.check_stop()
    version = RANDOM_POLICY if name == RANDOM else context.training.version
    with context.stage(f"evaluate: {name}"):
        result, episodes = heldout_evaluation(context.spec, heldout(context)).run(
            name, lambda request: context.collector.collect(request, version)
        )
        kept = [e for e in episodes if e.group < KEPT_GROUPS and e.sample == 0]
        context.store.replace(keys.episodes(name), codec.encode(kept))
        context.store.replace(key, result.model_dump_json(indent=1).encode())
    for environment in result.missing:
        context.view.note(
            f"evaluation {name}: environment {environment} is down and is not part of it"
        )
    if result.missing and name not in (RANDOM, keys.BEFORE):
        context.view.note(
            f"evaluation {name}: without all environments it does not count for the best checkpoint"
        )
    if result.out_of_tokens:
        context.view.note(
            f"evaluation {name}: {result.out_of_tokens} of {len(episodes)} episodes ended because "
            f"they filled the context of {context.spec.model.context} tokens; raise "
            "spec.model.context or lower the number of turns"
        )
    at, metrics = backfill.evaluation_metrics(result, len(context.history))
    context.tracker.metrics(at, metrics)
    context.tracker.episodes(at, backfill.title(name), kept)
    return _noted(context, result)


def _noted(context: RunContext, result: HeldoutResult) -> HeldoutResult:
    """The result, after making it the state's newest evaluation unless it is the random
    policy's."""
    if result.name != RANDOM:
        fields = {field: getattr(result, field) for field in HeldoutSummary.model_fields}
        context.journal.set_heldout(HeldoutSummary(**fields))
    return result


def evaluate_phase(context: RunContext, decision: Decision) -> HeldoutResult:
    """Evaluate the policy at the end of a phase; `decision` is the decision that ended it. Its
    checkpoint may be the best one from then on. If a rollback ended it, the policy is the restored
    one, with which the next phase begins."""
    done, restored = len(context.history), context.training.after_rollback
    result = evaluate(context, name_at_phase_end(decision, done, restored=restored))
    context.note_best()
    return result


def with_heldout(context: RunContext, record: IterationRecord) -> IterationRecord:
    """The record with held-out success, if an evaluation is due (`evaluation.every`)."""
    every = context.spec.evaluation.every
    done, total = record.iteration + 1, total_iterations(context.spec.horizon)
    if not every or done % every or done >= total:
        return record
    # The update of this iteration is not in a checkpoint yet: a stop waits until it is.
    found = evaluate(context, keys.evaluation_after(done), between=False)
    context.view.stage("train", total)
    context.view.advance(done)
    return record.model_copy(update=found.record_fields)


def heldout(context: RunContext) -> Sequence[DrawnTask]:
    """The held-out tasks of this run, always the same; without those of an environment that is
    down when they are first drawn."""
    if context.heldout is not None:
        return context.heldout
    drawn = context.draw("heldout", context.spec.evaluation.tasks)
    if not context.workers.down:
        context.heldout = drawn
    return drawn
