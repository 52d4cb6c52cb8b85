"""What each stage's process does. Imports what it needs and no more: a stage that holds no model
loads no torch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from agentrl_components.errors import StoreError
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import View
from agentrl_components.schedule.decision import Decision, decide
from agentrl_components.schedule.history import records
from agentrl_components.spec import AgentRLRun, flatten
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import open_store
from agentrl_components.storage.records import read_verdict
from agentrl_components.storage.store import Store
from agentrl_components.workers.imports import loading
from agentrl_envs.errors import SessionError
from agentrl_envs.world import World
from agentrl_pipelines.stages.artifacts import Artifacts

if TYPE_CHECKING:
    from agentrl_components.run.context import RunContext
    from agentrl_components.tracking.tracker import Tracker

ANSWER_S = 900.0
"""Seconds that environments may take to answer: images are pulled, task sets are read."""
ENDS = {"finish": "FINISHED", "stop": "FAILED"}
"""How the MLflow run of a run that ends with a decision is left."""


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
    from agentrl_components.rollout.environments import open_worlds
    from agentrl_components.stages.provision import provision as record

    store = step.store()
    if step.phase > 0 and not store.exists(keys.RUN):
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
    step.artifacts.put("lineage", store.get(keys.phase(step.phase, keys.LINEAGE)))


def train(step: Step) -> None:
    """Rollout and update in this process."""
    with working(step) as context:
        from agentrl_components.stages.before_training import begin
        from agentrl_components.stages.train import train as go_on

        begin(context)
        go_on(context, step.phase)
        played = [r.iteration for r in context.history if r.phase == step.phase]
        tell_trajectories(step, context, len(played))
        tell_checkpoint(step, context)


def rollout(step: Step) -> None:
    """The playing side."""
    from agentrl_components.tracking.tracker import SilentTracker

    with working(step, SilentTracker(), learns=False) as context:
        from agentrl_components.stages.disaggregated import play_phase

        iterations = play_phase(context, step.phase)
        tell_trajectories(step, context, iterations)


def update(step: Step) -> None:
    """The learning side."""
    with working(step) as context:
        from agentrl_components.stages.disaggregated import learn_phase

        learn_phase(context, step.phase)
        tell_checkpoint(step, context)


def evaluate(step: Step) -> None:
    """Held-out play, and the run's report so far. The last that MLflow is told of a run."""
    with working(step, last=True) as context:
        from agentrl_components.reporting import build
        from agentrl_components.stages.evaluate import evaluate_phase

        decision = decision_of(context)
        found = evaluate_phase(context, decision)
        context.journal.state("running", f"held-out success {found.success:.1%}")
        build.write(build.build(context.store, step.run), step.scratch)
        for name in ("report.json", "report.html", "curve.png"):
            context.tracker.artifact(step.scratch / name)
        told = found.model_dump(include={"success", "low", "high", "n", "score", "wellformed"})
        step.artifacts.describe("evaluation", {"iteration": len(context.history)} | told)
        step.artifacts.put("report", (step.scratch / "report.html").read_bytes())
        if decision.action == "finish" and context.spec.tracking.register_as is not None:
            from agentrl_pipelines.tracking import best_model

            model = best_model(context.store, context.spec, context.history, step.scratch)
            context.tracker.model(model, context.spec.tracking.register_as)


def expand(step: Step) -> None:
    """What follows; at the end of the run, its last words."""
    from agentrl_components.stages.expand import expand as written

    store = step.store()
    told = checkpoint.progress(store, checkpoint.complete(store)[-1])
    history = records(told["history"])
    journal = Journal(store)
    horizon = step.run.spec.horizon
    decision = written(journal, horizon, history, told["rolled_back"], step.phase)
    step.artifacts.put("decision", json.dumps(asdict(decision), indent=1).encode())
    if decision.action == "finish":
        journal.state("succeeded", f"{len(history)} iterations")
    elif decision.action == "stop":
        reason = f"stopped after iteration {len(history)}: {decision.reason}"
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
    step: Step, tracker: Tracker | None = None, *, learns: bool = True, last: bool = False
) -> Iterator[RunContext]:
    """The run, opened for work. The MLflow run goes on after it, unless this is the `last` to work
    on a run that ends here."""
    run, store = step.run, step.store()
    told, status = tracker or tracker_of(step, store), "RUNNING"
    with ExitStack() as opened:
        opened.callback(lambda: close(told, status, step.view))
        # Only now, as in the stages above: MLflow's process loads beside this, and takes as long.
        with loading():
            from agentrl_components.run.context import RunContext
            from agentrl_components.workers.group import early_hands

        # While this process has one thread, which the tracker's first word is the end of.
        hands = early_hands(run.spec.compute)
        if hands is not None:
            opened.callback(hands.close)
        told.params(flatten(run))
        context = RunContext(run, store, told, step.view, lambda: None, learns=learns, hands=hands)
        with context:
            step.view.note(f"ready after {time.monotonic() - step.began:.1f} s")
            yield context
            if last:
                status = ENDS.get(decision_of(context).action, status)


def close(tracker: Tracker, status: str, view: View) -> None:
    """Send what is left, and say what could not be sent."""
    for line in tracker.close(status):
        view.note(f"tracking: {line}")


def tracker_of(step: Step, store: Store) -> Tracker:
    """MLflow, where the manifest names one; its process begins to load."""
    if step.run.spec.tracking.uri is None:
        from agentrl_components.tracking.tracker import SilentTracker

        return SilentTracker()
    from agentrl_pipelines.tracking import open_tracker

    tracker = open_tracker(step.run, step.scratch, store)
    tracker.prepare()
    return tracker


def decision_of(context: RunContext) -> Decision:
    """What follows the last iteration."""
    return decide(context.spec.horizon, context.history, context.rolled_back)


def tell_trajectories(step: Step, context: RunContext, iterations: int) -> None:
    """How much was played, and as what; episodes of the phase's last iteration, a line each, in the
    form that a warm start takes."""
    from agentrl_components.trajectory import codec
    from agentrl_components.warmstart.conversations import line

    rollout = step.run.spec.rollout
    episodes = iterations * rollout.tasks * rollout.group_size
    told = {
        "phase": step.phase,
        "max_turns": step.run.spec.horizon.phases[step.phase].max_turns,
        "iterations": iterations,
        "episodes": episodes,
    }
    key, store = keys.phase(step.phase, keys.PLAYED), context.store
    played = codec.decode(store.get(key)) if store.exists(key) else ()
    said = context.crew.instructions
    lines = "".join(f"{line(episode, said[episode.environment])}\n" for episode in played)
    step.artifacts.put("trajectories", lines.encode(), told)


def tell_checkpoint(step: Step, context: RunContext) -> None:
    """Where the phase's last checkpoint is; weights are not copied."""
    if context.saved < 0:
        raise StoreError(f"{context.store.url}: the phase left no checkpoint")
    url = f"{context.store.url.rstrip('/')}/{keys.checkpoint(context.saved)}"
    told = {"url": url, "iteration": context.saved, "version": context.version}
    step.artifacts.put("checkpoint", json.dumps(told, indent=1).encode(), told)
