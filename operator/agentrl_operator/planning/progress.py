"""The fields of a run's status that say what works and how far it is."""

from __future__ import annotations

from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.crd.status import LONGEST_SUCCESS
from agentrl_components.spec.turn_limits import all_turn_limits, range_of
from agentrl_components.storage import keys
from agentrl_components.storage.records import HeldoutSummary, RunState, TrackerRecord
from agentrl_operator.api.resource import mlflow_url, stage_tracking_uri
from agentrl_operator.api.status import Cost, Status
from agentrl_operator.planning.observation import RayCluster
from agentrl_operator.planning.plan import Situation, with_clock_stopped
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform


def with_progress(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    """`status` with the fields updated by which nothing is decided."""
    observation, platform = situation.observation, situation.platform
    phases = run.spec.horizon.phases
    index = min(status.phase_index, len(phases) - 1)
    status = _with_mlflow_run(situation, run, status).with_(
        horizon=phases[index].max_turns,
        iterations=sum(phase.iterations for phase in phases),
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


def with_kfp_run(situation: Situation, status: Status) -> Status:
    """`status` that names the attempt's KFP run and counts active time."""
    run_id = situation.run_id(status)
    status = with_clock_running(situation, status)
    return status.with_(kfp_run=run_id, kfp_url=kfp_url(run_id, situation.platform))


def with_clock_running(situation: Situation, status: Status) -> Status:
    """`status` of a run that occupies resources: its active time counts. One whose pods all wait in
    Kueue's queue occupies none, and neither does one that waits for a Ray cluster in the queue."""
    observation, now = situation.observation, situation.now
    status = status.with_(
        start_time=status.start_time or now, active_time=status.active_time or now
    )
    cluster, waits = observation.ray_cluster, observation.queued
    if isinstance(cluster, RayCluster):
        # In a phase, stages that wait for the cluster hold resources.
        waits = cluster.queued and (observation.kfp is None or waits)
    return with_clock_stopped(status, now) if waits else status


def _with_mlflow_run(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    """`status` with the recorded MLflow run, if it is on the server that the manifest names. After
    an edit of `tracking.uri`, stages that begin later create one there; until then the status
    keeps the earlier one with its link."""
    record = situation.observation.mlflow_run
    if not isinstance(record, TrackerRecord) or record.run_id is None:
        return status
    there = record.run_id != status.mlflow_run  # a record of an earlier version names no server
    if record.uri is not None:
        there = record.uri == stage_tracking_uri(situation.resource, situation.platform)
    url = mlflow_url(record.run_id, run, situation.platform)
    return status.with_(mlflow_run=record.run_id, mlflow_url=url) if there else status


def success_text(heldout: HeldoutSummary) -> str:
    """Held-out success with its confidence interval, in percent: `81% [77, 85]`, and the
    environments that were down: `81% [77, 85] without rooms`. Those that do not fit into the field
    are counted: `without rooms and 2 more`, `without 3 environments`."""
    rate = f"{heldout.success:.0%} [{heldout.low * 100:.0f}, {heldout.high * 100:.0f}]"
    names = heldout.missing
    if not names:
        return rate
    some = (
        f"{', '.join(names[:n])} and {len(names) - n} more" for n in range(len(names) - 1, 0, -1)
    )
    texts = (f"{rate} without {one}" for one in (", ".join(names), *some))
    fitting = (text for text in texts if len(text) <= LONGEST_SUCCESS)
    return next(fitting, f"{rate} without {len(names)} environments")


def kfp_url(run_id: str, platform: Platform) -> str | None:
    """The page of a KFP run in the Kubeflow UI. None: the platform names no UI."""
    ui = platform.kfp.ui_url
    return f"{ui.rstrip('/')}/#/runs/details/{run_id}" if ui else None


def phase_text(run: AgentRLRun, status: Status) -> str:
    """The phase and the attempt in words: `phase 1 of 3, 6 turns, attempt 2`."""
    count = len(run.spec.horizon.phases)
    index = min(status.phase_index, count - 1)
    turns = range_of(all_turn_limits(run.spec, index).values())
    attempt = f", attempt {status.attempt + 1}" if status.attempt else ""
    return f"phase {index + 1} of {count}, {turns} turns{attempt}"
