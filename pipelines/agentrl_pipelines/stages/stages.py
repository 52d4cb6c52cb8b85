"""The stages of a phase, as functions of a `StageContext`.

Each function imports what it needs, so that stages without a model do not load torch.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from agentrl_components.errors import StoreError
from agentrl_components.exchange.heartbeat import announce
from agentrl_components.run.journal import Journal
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.records import read_decision
from agentrl_envs.errors import SessionError
from agentrl_envs.world import World
from agentrl_pipelines.stages.context import StageContext, current_decision, open_run_context

if TYPE_CHECKING:
    from agentrl_components.run.context import RunContext

ENVIRONMENT_TIMEOUT_S = 900.0
"""How long the environments may take to answer: images are pulled and task sets are read."""


def provision(stage: StageContext) -> None:
    """Wait for the environment servers and record which tasks they serve.

    Raises:
        StoreError: a later phase was started on a store that does not hold the run.
    """
    from agentrl_components.rollout.environments import open_worlds
    from agentrl_components.stages.provision import provision as record_fingerprints

    store = stage.store()
    if stage.phase > 0 and not store.exists(keys.RUN):
        raise StoreError(
            f"{store.url}: holds nothing of this run, which is past its first phase; point "
            "spec.storage.endpoint or the platform's storage at the service that holds it"
        )

    async def wait_and_record() -> None:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(SessionError),
            wait=wait_exponential(multiplier=0.2, max=5),
            stop=stop_after_delay(ENVIRONMENT_TIMEOUT_S),
            reraise=True,
        ):
            with attempt:
                worlds: Mapping[str, World] = await open_worlds(stage.run.spec.environments)
        try:
            await record_fingerprints(stage.run, worlds, Journal(store), stage.phase)
        finally:
            for world in worlds.values():
                await world.close()

    stage.view.stage("provision")
    asyncio.run(wait_and_record())
    fingerprints = store.get(keys.phase(stage.phase, keys.FINGERPRINTS))
    stage.artifacts.put("lineage", fingerprints)  # the name in the graph, which stored runs have


def train(stage: StageContext) -> None:
    """Roll out and update in this process (`placement: colocated`)."""
    with open_run_context(stage) as context:
        from agentrl_components.stages.before_training import prepare
        from agentrl_components.stages.train import train as train_phase

        prepare(context)
        train_phase(context, stage.phase)
        iterations = [r.iteration for r in context.history if r.phase == stage.phase]
        put_trajectories(stage, context, len(iterations))
        put_checkpoint(stage, context)


def rollout(stage: StageContext) -> None:
    """Play episodes for the `update` stage (`placement: disaggregated`)."""
    from agentrl_components.tracking.tracker import SilentTracker

    announce(stage.store(), "rollout")
    with open_run_context(stage, SilentTracker(), learns=False) as context:
        from agentrl_components.stages.disaggregated import play_phase

        play_phase(context, stage.phase)
        # Not what this process played: an earlier one may have played a part of the phase, and
        # what was played ahead may not be learnt from. All records are there when it is over.
        records = context.journal.iterations()
        iterations = sum(record["phase"] == stage.phase for record in records)
        put_trajectories(stage, context, iterations)


def update(stage: StageContext) -> None:
    """Train on the episodes of the `rollout` stage (`placement: disaggregated`)."""
    announce(stage.store(), "update")
    with open_run_context(stage) as context:
        from agentrl_components.stages.disaggregated import learn_phase

        learn_phase(context, stage.phase)
        put_checkpoint(stage, context)


def evaluate(stage: StageContext) -> None:
    """Evaluate on held-out tasks and write the run's report.

    The last stage that records in MLflow: at the end of the run it registers the best model and
    terminates the MLflow run.

    Raises:
        StoreError: the checkpoint at the end of the phase is damaged or gone. The next attempt
            trains from the one before.
    """
    with open_run_context(stage, ends_run=True) as context:
        from agentrl_components.reporting import build
        from agentrl_components.reporting.description import (
            model_description,
            model_metadata,
            run_description,
        )
        from agentrl_components.stages.evaluate import evaluate_phase
        from agentrl_components.stages.expand import check_over, final_state

        decision = current_decision(context)
        check_over(decision, stage.phase, len(context.history))
        result = evaluate_phase(context, decision)
        context.journal.write_state("running", f"held-out success {result.success:.1%}")
        # The stage `expand` writes the final state, and no report is built after this one.
        final = final_state(decision, len(context.history))
        report = build.build(context.store, stage.run, final=final)
        build.write(report, stage.scratch)
        context.tracker.describe(run_description(report))
        for name in ("report.json", "report.html", "curve.png"):
            context.tracker.artifact(stage.scratch / name)
        metrics = result.model_dump(include={"success", "low", "high", "n", "score", "wellformed"})
        stage.artifacts.describe("evaluation", {"iteration": len(context.history)} | metrics)
        stage.artifacts.put("report", (stage.scratch / "report.html").read_bytes())
        if decision.action == "finish" and context.spec.tracking.register_as is not None:
            from agentrl_pipelines.tracking import best_model

            model = best_model(context.store, context.spec, context.history, stage.scratch)
            metadata = model_metadata(context.spec)
            description = model_description(report, metadata)
            context.tracker.model(model, context.spec.tracking.register_as, description, metadata)


def expand(stage: StageContext) -> None:
    """Decide what follows this phase. At the end of the run, record its final state. Raises
    `StoreError` as `evaluate` does."""
    from agentrl_components.stages.expand import expand as record_decision
    from agentrl_components.stages.expand import final_state

    store = stage.store()
    numbers = checkpoint.complete(store)
    if not numbers:
        raise StoreError(f"{store.url}: holds no complete checkpoint of phase {stage.phase + 1}")
    progress = checkpoint.progress(store, numbers[-1])
    history = [IterationRecord.model_validate(one) for one in progress["history"]]
    journal = Journal(store)
    horizon = stage.run.spec.horizon
    decision = record_decision(journal, horizon, history, progress["rolled_back"], stage.phase)
    stage.artifacts.put("decision", decision.model_dump_json(indent=1).encode())
    final = final_state(decision, len(history))
    if final:
        journal.write_state(**final)


def settle(stage: StageContext) -> None:
    """Runs after the other stages, also if they failed: record a phase without a decision as
    stopped."""
    store = stage.store()
    journal = Journal(store)
    if journal.current.status == "running" and read_decision(store, stage.phase) is None:
        journal.write_state("stopped", f"phase {stage.phase} ended before it was complete")


STAGES: dict[str, Callable[[StageContext], None]] = {
    "provision": provision,
    "train": train,
    "rollout": rollout,
    "update": update,
    "evaluate": evaluate,
    "expand": expand,
    "settle": settle,
}


def put_trajectories(stage: StageContext, context: RunContext, iterations: int) -> None:
    """Write the `trajectories` artifact: the number of episodes of the phase, which has
    `iterations`, and the episodes of the last one as JSON lines in the format of `warmStart`."""
    from agentrl_components.trajectory import codec
    from agentrl_components.warmstart.conversations import conversation_line

    rollout = stage.run.spec.rollout
    metadata = {
        "phase": stage.phase,
        "max_turns": stage.run.spec.horizon.phases[stage.phase].max_turns,
        "iterations": iterations,
        "episodes": iterations * rollout.tasks * rollout.group_size,
    }
    key, store = keys.phase(stage.phase, keys.PLAYED), context.store
    episodes = codec.decode(store.get(key)) if store.exists(key) else ()
    instructions = context.workers.instructions
    lines = "".join(
        f"{conversation_line(one, instructions[one.environment])}\n" for one in episodes
    )
    stage.artifacts.put("trajectories", lines.encode(), metadata)


def put_checkpoint(stage: StageContext, context: RunContext) -> None:
    """Write the `checkpoint` artifact: the URL of the phase's last checkpoint. Weights are not
    copied.

    Raises:
        StoreError: the phase left no checkpoint.
    """
    if context.newest_checkpoint < 0:
        raise StoreError(f"{context.store.url}: the phase left no checkpoint")
    url = f"{context.store.url.rstrip('/')}/{keys.checkpoint(context.newest_checkpoint)}"
    metadata = {
        "url": url,
        "iteration": context.newest_checkpoint,
        "version": context.training.version,
    }
    stage.artifacts.put("checkpoint", json.dumps(metadata, indent=1).encode(), metadata)
