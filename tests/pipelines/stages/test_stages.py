"""Stages in separate processes give the same results as a run in one process, even when killed."""

import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import corridor_run
import pytest
from stage_run import iteration_records, manifest, run_disaggregated, stage_context

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun
from agentrl_components.stages.names import STAGE_NAMES
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_decision, read_state
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.local.run import run_local
from agentrl_pipelines.stages.runner import run_and_exit, run_stage
from agentrl_pipelines.stages.stages import STAGES


def records(store: Path) -> tuple[Sequence[bytes], dict, bytes]:
    """The results that must not depend on how the run was executed."""
    kept = DirectoryStore(store)
    iterations = [kept.get(key) for key in kept.list(keys.ITERATIONS)]
    after = json.loads(kept.get(keys.evaluation("after")))
    return iterations, after, kept.get(keys.checkpoint(10, "model.safetensors"))


@pytest.fixture(scope="module", params=[0, 1], ids=["on-policy", "stale"])
def lag(request) -> int:
    """`maxStaleness`: updates by which the rollout policy may lag behind."""
    return request.param


@pytest.fixture(scope="module")
def whole(lag, tmp_path_factory) -> tuple[Sequence[bytes], dict, bytes]:
    """The results of the run in one process."""
    root = tmp_path_factory.mktemp("whole")
    run_local(manifest(root / "kept", lag=lag), root / "run", SilentProgressView(), MemoryTracker())
    return records(root / "kept")


def test_stages_run_one_by_one_equal_a_run_in_one_process(whole, lag, tmp_path):
    run = manifest(tmp_path / "kept", lag=lag)
    for phase in (0, 1):
        for name in ("provision", "train", "evaluate", "expand", "settle"):
            assert run_stage(name, stage_context(run, tmp_path / "scratch", phase)) == 0
    assert records(tmp_path / "kept") == whole
    store = DirectoryStore(tmp_path / "kept")
    assert [read_decision(store, phase).action for phase in (0, 1)] == ["advance", "finish"]
    state = read_state(store)
    assert (state.status, state.iteration, state.heldout.name) == ("succeeded", 10, "after")


def test_every_stage_has_a_function():
    assert tuple(STAGES) == STAGE_NAMES


def test_a_completed_stage_is_not_repeated(tmp_path):
    run = manifest(tmp_path / "kept")
    for name in ("provision", "train", "train"):
        stage = stage_context(run, tmp_path / "scratch", 0)
        assert run_stage(name, stage) == 0
    assert "train" not in stage.view.stages
    assert checkpoint.complete(DirectoryStore(tmp_path / "kept"))[-1] == 5


Start = Callable[[str, AgentRLRun, Path, int], ForkServerProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a stage in a process, which ends with the test: a stage waits for its partner."""
    with ExitStack() as stack:

        def start(name: str, run: AgentRLRun, scratch: Path, phase: int) -> ForkServerProcess:
            stage = stage_context(run, scratch, phase)
            return stack.enter_context(corridor_run.forked(run_and_exit, name, stage))

        yield start


def test_the_staleness_metric_equals_the_lag_of_the_policy(whole, lag):
    measured = [json.loads(line)["metrics"]["train/staleness"] for line in whole[0]]
    assert measured == {0: [0.0] * 10, 1: [0.0, 1, 1, 1, 1] * 2}[lag]


def test_rollout_and_update_may_be_killed_at_any_moment_and_restarted(whole, lag, tmp_path, start):
    run, scratch = manifest(tmp_path / "kept", "disaggregated", lag), tmp_path / "scratch"
    moments, kills = random.Random(1), 0
    for phase in (0, 1):
        assert run_stage("provision", stage_context(run, scratch, phase)) == 0
        for name in ("rollout", "update"):
            alone = start(name, run, scratch / name, phase)  # waits for its partner
            time.sleep(moments.uniform(0.05, 0.6))
            alone.kill()
            alone.join()
            assert alone.exitcode == -signal.SIGKILL
        sides = {name: start(name, run, scratch / name, phase) for name in ("rollout", "update")}
        deadline = time.monotonic() + 600
        while any(side.exitcode != 0 for side in sides.values()):
            assert time.monotonic() < deadline
            time.sleep(moments.uniform(0.05, 0.6))
            victim = moments.choice(("rollout", "update"))
            if kills < 4 * (phase + 1) and sides[victim].exitcode is None:
                sides[victim].kill()
                sides[victim].join()
                kills += 1
            for name, side in sides.items():
                if side.exitcode == -signal.SIGKILL:
                    sides[name] = start(name, run, scratch / name, phase)
                else:
                    assert side.exitcode in (None, 0)
        for name in ("evaluate", "expand"):
            assert run_stage(name, stage_context(run, scratch, phase)) == 0
    assert kills >= 4
    assert records(tmp_path / "kept") == whole


def test_a_disaggregated_run_can_be_resumed_in_one_process(whole, lag, tmp_path, start):
    """Both sides are killed at any relative progress; stale policies are in the weight channel."""
    run, scratch = manifest(tmp_path / "kept", "disaggregated", lag), tmp_path / "scratch"
    assert run_stage("provision", stage_context(run, scratch, 0)) == 0
    sides = [start(name, run, scratch / name, 0) for name in ("rollout", "update")]
    deadline = time.monotonic() + 300
    while not (tmp_path / "kept" / keys.iteration(3)).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for side in sides:
        side.kill()
        side.join()
    one = manifest(tmp_path / "kept", lag=lag)
    run_local(one, tmp_path / "run", SilentProgressView(), MemoryTracker())
    assert records(tmp_path / "kept") == whole


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_lost_episodes_are_played_again(whole, lag, placement, tmp_path):
    """The only checkpoint of the last phase is damaged and its episodes were deleted: the run
    resumes from the checkpoint at the end of the first phase."""
    folder, scratch = tmp_path / "kept", tmp_path / "scratch"
    run = manifest(folder, placement, lag, update={"keepLast": 1})
    if placement == "colocated":
        run_local(run, tmp_path / "run", SilentProgressView(), MemoryTracker())
    else:
        run_disaggregated(run, scratch)
    newest = folder / keys.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    (folder / keys.evaluation("after")).unlink()
    if placement == "colocated":
        run_local(run, tmp_path / "run", SilentProgressView(), MemoryTracker())
    else:
        run_disaggregated(run, scratch)
    assert records(folder) == whole


def test_the_trajectories_of_a_phase_are_counted_by_a_rollout_that_played_none_of_them(tmp_path):
    """Regression: a pod that was restarted counted what it had played itself."""
    run, scratch = manifest(tmp_path / "kept", "disaggregated", 1), tmp_path / "scratch"
    run_disaggregated(run, scratch, phases=1)
    rollout = stage_context(run, tmp_path / "again", 0)
    assert run_stage("rollout", rollout) == 0
    assert rollout.view.stages == []
    for folder in (scratch / "rollout", tmp_path / "again"):
        about = json.loads((folder / "artifacts" / "trajectories.json").read_text())
        assert (about["phase"], about["iterations"], about["episodes"]) == (0, 5, 5 * 6 * 4)


STAGES_OF_A_PHASE = ("provision", "train", "evaluate", "expand")


def run_phase(run: AgentRLRun, scratch: Path, phase: int) -> None:
    """One phase, stage by stage."""
    if run.spec.compute.placement == "disaggregated":
        run_disaggregated(run, scratch, phase + 1, first=phase)
        return
    for name in STAGES_OF_A_PHASE:
        assert run_stage(name, stage_context(run, scratch, phase)) == 0


def damage(store: Path, number: int) -> None:
    """Cut a byte off the weights of a checkpoint."""
    weights = store / keys.checkpoint(number, "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])


def delete(store: Path, number: int) -> None:
    """Delete a checkpoint, as people do with a damaged one."""
    for path in (store / keys.checkpoint(number)).rglob("*.*"):
        path.unlink()


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
@pytest.mark.parametrize("spoil", [damage, delete])
def test_a_phase_repeats_the_end_of_the_one_before_if_its_checkpoint_is_unusable(
    whole, lag, placement, spoil, tmp_path
):
    """Regression: phase 1 ended at once, without an iteration, in each of its attempts."""
    folder, scratch = tmp_path / "kept", tmp_path / "scratch"
    run = manifest(folder, placement, lag)
    run_phase(run, scratch, 0)
    ended = keys.evaluation("iteration-000005")
    evaluated = (folder / ended).read_bytes()
    spoil(folder, 5)
    run_phase(run, scratch, 1)
    assert records(folder) == whole
    assert (folder / ended).read_bytes() == evaluated
    assert read_decision(DirectoryStore(folder), 1).action == "finish"


@pytest.mark.parametrize("spoil", [damage, delete])
def test_a_phase_whose_last_checkpoint_is_unusable_is_neither_evaluated_nor_expanded(
    spoil, tmp_path
):
    """Regression: the weights of iteration 4 were evaluated in place of those of iteration 5, and
    `expand` decided by the history of the damaged checkpoint, or stored that the phase goes on."""
    folder, scratch = tmp_path / "kept", tmp_path / "scratch"
    run = manifest(folder)
    for name in ("provision", "train"):
        assert run_stage(name, stage_context(run, scratch, 0)) == 0
    calm = iteration_records(folder)
    spoil(folder, 5)
    store = DirectoryStore(folder)
    for name in ("evaluate", "expand") if spoil is delete else ("evaluate",):
        assert run_stage(name, stage_context(run, scratch, 0)) == 1
        assert "phase 1 is not over after iteration 4" in read_state(store).message
    assert not store.exists(keys.evaluation("iteration-000004"))
    assert read_decision(store, 0) is None
    run_phase(run, scratch, 0)  # the operator's next attempt
    assert read_decision(store, 0).action == "advance"
    assert iteration_records(folder) == calm
