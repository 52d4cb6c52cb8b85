"""The informational fields of a run's status: nothing decides by them."""

from __future__ import annotations

from agentrl_components.schedule.turn_limits import all_turn_limits, range_of
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.records import HeldoutSummary, RunState
from agentrl_operator.api.status import Cost, Status
from agentrl_operator.planning.plan import Situation
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform


def with_progress(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    """`status` with its informational fields updated."""
    observation, platform = situation.observation, situation.platform
    phases = run.spec.horizon.phases
    index = min(status.phase_index, len(phases) - 1)
    mlflow_run = status.mlflow_run or observation.mlflow_run
    status = status.with_(
        horizon=phases[index].max_turns,
        iterations=sum(phase.iterations for phase in phases),
        mlflow_run=mlflow_run,
        mlflow_url=mlflow_url(mlflow_run, run, platform),
    )
    state = observation.run_state
    if not isinstance(state, RunState):
        return status
    if state.max_turns and state.phase == status.phase_index:
        status = status.with_(horizon=state.max_turns)
    if state.heldout is not None and state.heldout.name != keys.BEFORE:
        status = status.with_(success=success_text(state.heldout))
    if state.best is not None:
        url = resolve.run_storage(run, situation.resource.uid, platform).url
        status = status.with_(best_checkpoint=f"{url}/{keys.checkpoint(state.best)}")
    cost = Cost(
        tokens=int(state.tokens),
        environment_seconds=int(state.environment_seconds),
        device_seconds=int(state.device_seconds),
    )
    return status.with_(iteration=state.iteration, cost=cost)


def success_text(heldout: HeldoutSummary) -> str:
    """Held-out success with its confidence interval, in percent: `81% [77, 85]`."""
    return f"{heldout.success:.0%} [{heldout.low * 100:.0f}, {heldout.high * 100:.0f}]"


def kfp_url(run_id: str, platform: Platform) -> str | None:
    """The page of a KFP run in the Kubeflow UI. None: the platform names no UI."""
    ui = platform.kfp.ui_url
    return f"{ui.rstrip('/')}/#/runs/details/{run_id}" if ui else None


def mlflow_url(run_id: str | None, run: AgentRLRun, platform: Platform) -> str | None:
    """The page of a run in the MLflow UI. The platform's MLflow may have another address for
    people (`ui_url`) than for pods (`uri`)."""
    own = run.spec.tracking.uri
    ui = own or platform.tracking.ui_url or platform.tracking.uri
    return f"{ui.rstrip('/')}/#/runs/{run_id}" if ui and run_id else None


def phase_text(run: AgentRLRun, status: Status) -> str:
    """The phase and the attempt in words: `phase 1 of 3, 6 turns, attempt 2`."""
    count = len(run.spec.horizon.phases)
    index = min(status.phase_index, count - 1)
    turns = range_of(all_turn_limits(run.spec, index).values())
    attempt = f", attempt {status.attempt + 1}" if status.attempt else ""
    return f"phase {index + 1} of {count}, {turns} turns{attempt}"
