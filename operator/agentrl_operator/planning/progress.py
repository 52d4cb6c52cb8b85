"""What a run's status shows of its progress."""

from __future__ import annotations

from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.records import Found, State
from agentrl_operator.api.status import Cost, Status
from agentrl_operator.planning.situation import Situation
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform


def shown(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    """`status` with everything that is only there to be looked at."""
    observed, platform = situation.observed, situation.platform
    phases = run.spec.horizon.phases
    at = min(status.phase_index, len(phases) - 1)
    tracked = status.mlflow_run or observed.mlflow_run
    status = status.with_(
        horizon=phases[at].max_turns,
        iterations=sum(phase.iterations for phase in phases),
        mlflow_run=tracked,
        mlflow_url=mlflow_url(tracked, run, platform),
    )
    standing = observed.standing
    if not isinstance(standing, State):
        return status
    if standing.max_turns and standing.phase == status.phase_index:
        status = status.with_(horizon=standing.max_turns)
    if standing.heldout is not None:
        status = status.with_(success=success(standing.heldout))
    if standing.best is not None:
        url = resolve.run_storage(run, situation.resource.uid, platform).url
        status = status.with_(best_checkpoint=f"{url}/{keys.checkpoint(standing.best)}")
    cost = Cost(
        tokens=int(standing.tokens),
        environment_seconds=int(standing.environment_seconds),
        device_seconds=int(standing.device_seconds),
    )
    return status.with_(iteration=standing.iteration, cost=cost)


def success(heldout: Found) -> str:
    """Held-out success as people read it: 81% [77, 85]."""
    return f"{heldout.success:.0%} [{heldout.low * 100:.0f}, {heldout.high * 100:.0f}]"


def kfp_url(run_id: str, platform: Platform) -> str | None:
    """Where the Kubeflow UI shows a run."""
    ui = platform.kfp.ui_url
    return f"{ui.rstrip('/')}/#/runs/details/{run_id}" if ui else None


def mlflow_url(run_id: str | None, run: AgentRLRun, platform: Platform) -> str | None:
    """Where MLflow shows a run; people reach the platform's by another address than pods do."""
    own = run.spec.tracking.uri
    ui = own or platform.tracking.ui_url or platform.tracking.uri
    return f"{ui.rstrip('/')}/#/runs/{run_id}" if ui and run_id else None


def where(run: AgentRLRun, status: Status) -> str:
    """Which phase is worked on, for people."""
    phases = run.spec.horizon.phases
    at = min(status.phase_index, len(phases) - 1)
    again = f", attempt {status.attempt + 1}" if status.attempt else ""
    return f"phase {at + 1} of {len(phases)}, {phases[at].max_turns} turns{again}"
