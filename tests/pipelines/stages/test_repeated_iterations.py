"""A resumed run whose repeated iterations have other values, as on a GPU or another kind of CPU."""

import threading
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from stage_run import iterations, manifest, stage_context

from agentrl_components.run.progress import IterationProgress, SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_decision
from agentrl_components.trajectory import codec
from agentrl_pipelines.stages.context import StageContext
from agentrl_pipelines.stages.runner import run_stage

PHASES = [
    {"maxTurns": 2, "iterations": 20, "minIterations": 2},
    {"maxTurns": 4, "iterations": 3},
]
TIMEOUT_S = 300.0


class Killed(BaseException):
    """The end of a process."""


class KillingView(SilentProgressView):
    """Kills its process after seven iterations, before their weights are handed over."""

    def iteration(self, progress: IterationProgress) -> None:
        if progress.iteration == 7:
            raise Killed


def early_end(store: Path, placement: str, lag: int) -> AgentRLRun:
    """Success in all episodes of two iterations ends the first phase. There is no checkpoint
    between the beginning and the end of a phase."""
    horizon = {"phases": PHASES, "advance": "success", "successAbove": 0.95, "window": 2}
    return manifest(store, placement, lag, horizon=horizon, update={"checkpointEvery": 30})


def killed_in_iteration_seven(name: str, stage: StageContext) -> None:
    with pytest.raises(Killed):
        run_stage(name, replace(stage, view=KillingView()))


def make_successful(store: DirectoryStore, numbers: Collection[int]) -> None:
    """Make all episodes of these iterations successful: what is learnt from them again has other
    values than the first time."""
    for key in list(store.list(keys.TRAJECTORIES)):
        if keys.iteration_and_policy(key)[0] in numbers:
            episodes = codec.decode(store.get(key), key)
            store.replace(key, codec.encode([replace(one, success=True) for one in episodes]))


def turn_limits(store: DirectoryStore) -> dict[int, set[int]]:
    """The turn limits of the stored episodes, by iteration."""
    limits: dict[int, set[int]] = {}
    for key in store.list(keys.TRAJECTORIES):
        found = {one.max_turns for one in codec.decode(store.get(key), key)}
        limits.setdefault(keys.iteration_and_policy(key)[0], set()).update(found)
    return limits


@pytest.mark.parametrize("lag", [0, 1], ids=["on-policy", "stale"])
@pytest.mark.parametrize("end", [3, 5, 6])
def test_both_sides_follow_a_phase_that_ends_earlier_in_the_repetition(end, lag, tmp_path):
    """Policies up to 6 were published for phase 0; of these the newest two, with a lag three, are
    still there. The repetition ends phase 0 after 3, 5 or 6 iterations."""
    run = early_end(tmp_path / "kept", "disaggregated", lag)
    store = DirectoryStore(tmp_path / "kept")

    def stage(name: str, phase: int) -> StageContext:
        return stage_context(run, tmp_path / name, phase)

    def start_rollout(phase: int) -> threading.Thread:
        player = threading.Thread(
            target=run_stage, args=("rollout", stage("rollout", phase)), daemon=True
        )
        player.start()
        return player

    assert run_stage("provision", stage("provision", 0)) == 0
    player = start_rollout(0)
    killed_in_iteration_seven("update", stage("update", 0))
    make_successful(store, (end - 2, end - 1))
    for phase in (0, 1):
        assert run_stage("update", stage("update", phase)) == 0
        player.join(TIMEOUT_S)
        assert not player.is_alive(), "rollout does not know that the phase is over"
        for name in ("evaluate", "expand"):
            assert run_stage(name, stage(name, phase)) == 0
        if phase == 0:
            assert read_decision(store, 0).action == "advance"
            assert run_stage("provision", stage("provision", 1)) == 0
            player = start_rollout(1)
    records = iterations(stage("update", 1))
    assert [record["max_turns"] for record in records] == [2] * end + [4] * 3
    assert turn_limits(store) == {end: {4}, end + 1: {4}, end + 2: {4}}


def test_episodes_that_one_process_played_ahead_for_the_phase_before_are_not_learnt_from(tmp_path):
    """Iteration 5 was played ahead by policy 4 at a horizon of 2 turns. The repetition ends phase 0
    after 4 iterations, and policy 4 plays iterations 4 and 5 of the run at one of 4 turns."""
    run = early_end(tmp_path / "kept", "colocated", 1)
    store = DirectoryStore(tmp_path / "kept")
    stage = stage_context(run, tmp_path / "s", 0)
    assert run_stage("provision", stage) == 0
    killed_in_iteration_seven("train", stage)
    assert store.exists(keys.trajectories(5, 4))
    make_successful(store, (2, 3))
    for phase in (0, 1):
        for name in ("provision", "train", "evaluate", "expand"):
            assert run_stage(name, stage_context(run, tmp_path / "s", phase)) == 0
    records = iterations(stage)
    assert [record["max_turns"] for record in records] == [2] * 4 + [4] * 3
    assert turn_limits(store) == {4: {4}, 5: {4}, 6: {4}}
