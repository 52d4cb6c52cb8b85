"""The corridor run, stage by stage."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import corridor_run

from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_pipelines.stages.artifacts import Artifacts
from agentrl_pipelines.stages.context import StageContext
from agentrl_pipelines.stages.runner import run_stage


def manifest(
    store: Path, placement: str = "colocated", lag: int = 0, **changes: object
) -> AgentRLRun:
    defaults = {
        "warmStart": {"episodes": 40},
        "evaluation": {"every": 0},
        "storage": {"url": store.as_uri()},
        "compute": {"placement": placement},
        "rollout": {"maxStaleness": lag},
    }
    return corridor_run.manifest(**defaults | changes)


def stage_context(
    run: AgentRLRun, scratch: Path, phase: int, executor_input: str | None = None
) -> StageContext:
    scratch.mkdir(parents=True, exist_ok=True)
    return StageContext(
        run=run,
        phase=phase,
        attempt=0,
        scratch=scratch,
        artifacts=Artifacts(executor_input, scratch),
        view=SilentProgressView(),
    )


def run_disaggregated(run: AgentRLRun, scratch: Path, phases: int = 2, first: int = 0) -> int:
    """Run the phases from `first` to before `phases` with rollout and update in two threads.
    Returns the iterations that the artifacts `trajectories` count."""
    counted = 0
    for phase in range(first, phases):
        assert run_stage("provision", stage_context(run, scratch, phase)) == 0
        rollout = stage_context(run, scratch / "rollout", phase)
        thread = threading.Thread(target=run_stage, args=("rollout", rollout))
        thread.start()
        assert run_stage("update", stage_context(run, scratch / "update", phase)) == 0
        thread.join()
        artifacts = scratch / "rollout" / "artifacts"
        counted += json.loads((artifacts / "trajectories.json").read_text())["iterations"]
        episodes = (artifacts / "trajectories").read_text().splitlines()
        last = max(one["iteration"] for one in iterations(rollout) if one["phase"] == phase)
        assert [json.loads(line)["iteration"] for line in episodes] == [last] * 2
        for name in ("evaluate", "expand"):
            assert run_stage(name, stage_context(run, scratch, phase)) == 0
    return counted


def iterations(stage: StageContext) -> Sequence[dict]:
    return list(Journal(stage.store()).iterations())


def iteration_records(store: Path) -> Sequence[bytes]:
    """The stored iteration records, as bytes."""
    kept = DirectoryStore(store)
    return [kept.get(key) for key in kept.list(keys.ITERATIONS)]
