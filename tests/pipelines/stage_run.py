"""The walk by its stages."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import corridor_run

from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentView
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_pipelines.stages.artifacts import Artifacts
from agentrl_pipelines.stages.runner import run_step
from agentrl_pipelines.stages.stages import Step


def manifest(
    store: Path, placement: str = "colocated", lag: int = 0, **changes: object
) -> AgentRLRun:
    usual = {
        "warmStart": {"episodes": 40},
        "evaluation": {"every": 0},
        "storage": {"url": store.as_uri()},
        "compute": {"placement": placement},
        "rollout": {"maxStaleness": lag},
    }
    return corridor_run.manifest(**usual | changes)


def step(run: AgentRLRun, scratch: Path, phase: int, told: str | None = None) -> Step:
    scratch.mkdir(parents=True, exist_ok=True)
    return Step(
        run=run,
        phase=phase,
        attempt=0,
        scratch=scratch,
        artifacts=Artifacts(told, scratch),
        view=SilentView(),
    )


def together(run: AgentRLRun, scratch: Path, phases: int = 2) -> int:
    """The run's phases with rollout and update apart, in threads. How much was played."""
    played = 0
    for phase in range(phases):
        assert run_step("provision", step(run, scratch, phase)) == 0
        playing = step(run, scratch / "rollout", phase)
        player = threading.Thread(target=run_step, args=("rollout", playing))
        player.start()
        assert run_step("update", step(run, scratch / "update", phase)) == 0
        player.join()
        told = scratch / "rollout" / "artifacts"
        played += json.loads((told / "trajectories.json").read_text())["iterations"]
        episodes = (told / "trajectories").read_text().splitlines()
        last = max(one["iteration"] for one in recorded(playing) if one["phase"] == phase)
        assert [json.loads(line)["iteration"] for line in episodes] == [last] * 2
        for name in ("evaluate", "expand"):
            assert run_step(name, step(run, scratch, phase)) == 0
    return played


def recorded(step: Step) -> Sequence[dict]:
    return list(Journal(step.store()).iterations())


def lines(store: Path) -> Sequence[bytes]:
    kept = DirectoryStore(store)
    return [kept.get(key) for key in kept.list(keys.ITERATIONS)]
