"""What each stage's process does. Imports what it needs and no more: a stage that holds no model
loads no torch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from agentrl_components import checkpoint, layout
from agentrl_components.errors import StoreError
from agentrl_components.expansion import Decision, decide
from agentrl_components.history import records
from agentrl_components.journal import Journal
from agentrl_components.spec import AgentRLRun, flatten
from agentrl_components.state import read_verdict
from agentrl_components.store import Store
from agentrl_components.stores import open_store
from agentrl_components.view import View
from agentrl_envs.errors import SessionError
from agentrl_envs.session import World
from agentrl_pipelines.artifacts import Artifacts

if TYPE_CHECKING:
    from agentrl_components.context import RunContext
    from agentrl_components.tracker import Tracker

ANSWER_S = 900.0
"""Seconds that environments may take to answer: images are pulled, task sets are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a stage's process is told."""

    run: AgentRLRun
    """The manifest as the cluster sees it."""
    phase: int
    attempt: int
    """How often the phase was started anew."""
    scratch: Path
    """A folder that is lost with the pod."""
    artifacts: Artifacts
    view: View
    began: float = field(default_factory=time.monotonic)
    """When its process began, by the monotonic clock."""

    def store(self) -> Store:
        """Where the run is kept."""
        return open_store(self.run.spec.storage, self.scratch / "store")


def provision(step: Step) -> None:
    """Wait for the worlds and record what they are."""
    from agentrl_components.stages.provision import provision as record
    from agentrl_components.worlds import open_worlds

    store = step.store()
    if step.phase > 0 and not store.exists(layout.RUN):
        raise StoreError(
            f"{store.url}: holds nothing of this run, which is past its first phase; point "
            "spec.storage.endpoint or the platform's storage at the service that holds it"
        )

    async def answer() -> None:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(SessionError),
            wait=wait_exponential(multiplier=0.2, max=5),
            stop=stop_after_delay(ANSWER_S),
            reraise=True,
        ):
            with attempt:
                worlds: Mapping[str, World] = await open_worlds(step.run.spec.environments)
        try:
            await record(step.run, worlds, Journal(store), step.phase)
        finally:
            for world in worlds.values():
                await world.close()

    step.view.stage("provision")
    asyncio.run(answer())
    step.artifacts.put("lineage", store.get(layout.phase(step.phase, layout.LINEAGE)))


def train(step: Step) -> None:
    """Rollout and update in this process."""
    with working(step) as context:
        from agentrl_components.stages.begin import begin
        from agentrl_components.stages.train import train as go_on

        begin(context)
        go_on(context, step.phase)
        played = [r.iteration for r in context.history if r.phase == step.phase]
        tell_trajectories(step, context, len(played))
        tell_checkpoint(step, context)


def rollout(step: Step) -> None:
    """The playing side."""
    from agentrl_components.tracker import SilentTracker

    with working(step, SilentTracker(), learns=False) as context:
        from agentrl_components.stages.apart import play_phase

        iterations = play_phase(context, step.phase)
        tell_trajectories(step, context, iterations)


def update(step: Step) -> None:
    """The learning side."""
    with working(step) as context:
        from agentrl_components.stages.apart import learn_phase

        learn_phase(context, step.phase)
        tell_checkpoint(step, context)


def evaluate(step: Step) -> None:
    """Held-out play, and the run's report so far."""
    with working(step) as context:
        from agentrl_components import report
        from agentrl_components.stages.evaluate import evaluate_phase

        found = evaluate_phase(context, decision_of(context))
        context.journal.state("running", f"held-out success {found.success:.1%}")
        report.write(report.build(context.store, step.run), step.scratch)
        for name in ("report.json", "report.html", "curve.png"):
            context.tracker.artifact(step.scratch / name)
        told = found.model_dump(include={"success", "low", "high", "n", "score", "wellformed"})
        step.artifacts.describe("evaluation", {"iteration": len(context.history)} | told)
        step.artifacts.put("report", (step.scratch / "report.html").read_bytes())


def expand(step: Step) -> None:
    """What follows; at the end of the run, its last words."""
    from agentrl_components.stages.expand import expand as written
    from agentrl_pipelines.tracking import best_model

    spec, store = step.run.spec, step.store()
    told = checkpoint.progress(store, checkpoint.complete(store)[-1])
    history = records(told["history"])
    journal = Journal(store)
    decision = written(journal, spec.horizon, history, told["rolled_back"], step.phase)
    step.artifacts.put("decision", json.dumps(asdict(decision), indent=1).encode())
    if decision.action == "finish":
        with tracking(step, store, "FINISHED") as tracker:
            if spec.tracking.register_as is not None:
                model = best_model(store, spec, history, step.scratch)
                tracker.model(model, spec.tracking.register_as)
        journal.state("succeeded", f"{len(history)} iterations")
    elif decision.action == "stop":
        reason = f"stopped after iteration {len(history)}: {decision.reason}"
        with tracking(step, store, "FAILED"):
            journal.state("failed", reason, reason="CollapseError", final=True)


def settle(step: Step) -> None:
    """Whatever happened: a phase that ended without a decision is told to be stopped."""
    store = step.store()
    journal = Journal(store)
    if journal.standing.status == "running" and read_verdict(store, step.phase) is None:
        journal.state("stopped", f"phase {step.phase} ended before it was over")


STEPS: dict[str, Callable[[Step], None]] = {
    "provision": provision,
    "train": train,
    "rollout": rollout,
    "update": update,
    "evaluate": evaluate,
    "expand": expand,
    "settle": settle,
}


@contextmanager
def working(
    step: Step, tracker: Tracker | None = None, *, learns: bool = True
) -> Iterator[RunContext]:
    """The run, opened for work; MLflow goes on after it."""
    store = step.store()
    with tracking(step, store, "RUNNING", tracker) as told:
        told.params(flatten(step.run))
        # Only now, as in the stages above: MLflow's process loads beside this, and takes as long.
        from agentrl_components.context import RunContext

        context = RunContext(step.run, store, told, step.view, lambda: None, learns=learns)
        with context:
            step.view.note(f"ready after {time.monotonic() - step.began:.1f} s")
            yield context


@contextmanager
def tracking(
    step: Step, store: Store, status: str, tracker: Tracker | None = None
) -> Iterator[Tracker]:
    """The run's tracker, or `tracker`; the MLflow run is left as `status`."""
    from agentrl_components.tracker import SilentTracker
    from agentrl_pipelines.tracking import open_tracker

    if tracker is None:
        named = step.run.spec.tracking.uri is not None
        tracker = open_tracker(step.run, step.scratch, store) if named else SilentTracker()
    try:
        yield tracker
    finally:
        for line in tracker.close(status):
            step.view.note(f"tracking: {line}")


def decision_of(context: RunContext) -> Decision:
    """What follows the last iteration."""
    return decide(context.spec.horizon, context.history, context.rolled_back)


def tell_trajectories(step: Step, context: RunContext, iterations: int) -> None:
    """How much was played, and as what; episodes of the phase's last iteration, a line each, in the
    form that a warm start takes."""
    from agentrl_components import trajectory_codec
    from agentrl_components.conversations import line

    rollout = step.run.spec.rollout
    episodes = iterations * rollout.tasks * rollout.group_size
    told = {
        "phase": step.phase,
        "max_turns": step.run.spec.horizon.phases[step.phase].max_turns,
        "iterations": iterations,
        "episodes": episodes,
    }
    key, store = layout.phase(step.phase, layout.PLAYED), context.store
    played = trajectory_codec.decode(store.get(key)) if store.exists(key) else ()
    said = context.crew.instructions
    lines = "".join(f"{line(episode, said[episode.environment])}\n" for episode in played)
    step.artifacts.put("trajectories", lines.encode(), told)


def tell_checkpoint(step: Step, context: RunContext) -> None:
    """Where the phase's last checkpoint is; weights are not copied."""
    if context.saved < 0:
        raise StoreError(f"{context.store.url}: the phase left no checkpoint")
    url = f"{context.store.url.rstrip('/')}/{layout.checkpoint(context.saved)}"
    told = {"url": url, "iteration": context.saved, "version": context.version}
    step.artifacts.put("checkpoint", json.dumps(told, indent=1).encode(), told)
