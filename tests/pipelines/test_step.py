"""The stages as processes: together they are the run that one process does, whatever dies."""

import json
import multiprocessing
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import walk

from agentrl_components import checkpoint, layout
from agentrl_components.journal import Journal
from agentrl_components.spec import AgentRLRun
from agentrl_components.stages import NAMES
from agentrl_components.state import read_state, read_verdict
from agentrl_components.stores import DirectoryStore
from agentrl_components.tracker import MemoryTracker
from agentrl_components.view import SilentView
from agentrl_pipelines.artifacts import Artifacts
from agentrl_pipelines.local import run_local
from agentrl_pipelines.step import end_with, run_step
from agentrl_pipelines.steps import STEPS, Step


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
    return walk.manifest(**usual | changes)


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


def records(store: Path) -> tuple[Sequence[bytes], dict, bytes]:
    """Everything about a run that must not depend on how it came about."""
    kept = DirectoryStore(store)
    iterations = [kept.get(key) for key in kept.list(layout.ITERATIONS)]
    after = json.loads(kept.get(layout.evaluation("after")))
    return iterations, after, kept.get(layout.checkpoint(10, "model.safetensors"))


@pytest.fixture(scope="module", params=[0, 1], ids=["in-turn", "lagging"])
def lag(request) -> int:
    """Updates that the weights which play lag behind."""
    return request.param


@pytest.fixture(scope="module")
def whole(lag, tmp_path_factory) -> tuple[Sequence[bytes], dict, bytes]:
    """The run as one process does it."""
    root = tmp_path_factory.mktemp("whole")
    run_local(manifest(root / "kept", lag=lag), root / "run", SilentView(), MemoryTracker())
    return records(root / "kept")


def test_stages_one_by_one_are_the_run_of_one_process(whole, lag, tmp_path):
    run = manifest(tmp_path / "kept", lag=lag)
    for phase in (0, 1):
        for name in ("provision", "train", "evaluate", "expand", "settle"):
            assert run_step(name, step(run, tmp_path / "scratch", phase)) == 0
    assert records(tmp_path / "kept") == whole
    store = DirectoryStore(tmp_path / "kept")
    assert [read_verdict(store, phase).action for phase in (0, 1)] == ["advance", "finish"]
    state = read_state(store)
    assert (state.status, state.iteration, state.heldout.name) == ("succeeded", 10, "after")


def test_every_stage_has_a_process():
    assert tuple(STEPS) == NAMES


def test_a_stage_that_is_done_does_nothing_twice(tmp_path):
    run = manifest(tmp_path / "kept")
    for name in ("provision", "train", "train"):
        once = step(run, tmp_path / "scratch", 0)
        assert run_step(name, once) == 0
    assert "train" not in once.view.stages
    assert checkpoint.complete(DirectoryStore(tmp_path / "kept"))[-1] == 5


def start(name: str, run: AgentRLRun, scratch: Path, phase: int) -> multiprocessing.Process:
    process = walk.FORK.Process(target=end_with, args=(name, step(run, scratch, phase)))
    process.start()
    return process


def test_the_lag_is_what_is_measured(whole, lag):
    measured = [json.loads(line)["metrics"]["train/staleness"] for line in whole[0]]
    assert measured == {0: [0.0] * 10, 1: [0.0, 1, 1, 1, 1] * 2}[lag]


def test_either_side_may_die_at_any_moment_and_come_back(whole, lag, tmp_path):
    run, scratch = manifest(tmp_path / "kept", "disaggregated", lag), tmp_path / "scratch"
    moments, kills = random.Random(1), 0
    for phase in (0, 1):
        assert run_step("provision", step(run, scratch, phase)) == 0
        sides = {name: start(name, run, scratch / name, phase) for name in ("rollout", "update")}
        deadline = time.monotonic() + 120
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
            assert run_step(name, step(run, scratch, phase)) == 0
    assert kills >= 2, "a busy machine gets there with fewer"
    assert records(tmp_path / "kept") == whole


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
    return [kept.get(key) for key in kept.list(layout.ITERATIONS)]


def test_what_was_played_for_a_phase_that_ended_early_is_dropped(tmp_path):
    """A tenth of success ends a phase of at most 8 after 6 iterations, when the last two are
    played already, and the next after 3."""
    phases = [{"maxTurns": turns, "iterations": 8, "minIterations": 3} for turns in (2, 4)]
    early = {"phases": phases, "advance": "success", "successAbove": 0.1, "window": 2}
    run = manifest(tmp_path / "one", lag=3, horizon=early)
    run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    told = [json.loads(line) for line in lines(tmp_path / "one")]
    assert [line["max_turns"] for line in told] == [2] * 6 + [4] * 3
    measured = [line["metrics"]["train/staleness"] for line in told]
    assert measured == [0.0, 1, 2, 3, 3, 3, 0, 1, 2]
    kept = DirectoryStore(tmp_path / "one").list(layout.TRAJECTORIES)
    assert [layout.played(key) for key in kept] == [(8, 6)]

    apart = manifest(tmp_path / "two", "disaggregated", 3, horizon=early)
    assert together(apart, tmp_path / "scratch") >= 9
    assert lines(tmp_path / "two") == lines(tmp_path / "one")


def test_after_a_rollback_what_was_played_ahead_is_dropped(tmp_path):
    alarm = {"action": "rollback", "window": 2, "entropyBelow": 50}
    phases = [{"maxTurns": 4, "iterations": 8}]
    changes = {"horizon": {"phases": phases, "alarms": [alarm]}, "update": {"keepLast": 20}}
    run = manifest(tmp_path / "one", lag=2, **changes)
    run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    told = [json.loads(line) for line in lines(tmp_path / "one")]
    assert [line["decision"]["action"] for line in told].index("rollback") == 4
    assert [line["metrics"]["train/staleness"] for line in told] == [0.0, 1, 2, 2, 2, 0, 1, 2]

    together(manifest(tmp_path / "two", "disaggregated", 2, **changes), tmp_path / "scratch", 1)
    assert lines(tmp_path / "two") == lines(tmp_path / "one")


def test_a_run_that_was_apart_goes_on_in_one_process(whole, lag, tmp_path):
    """Killed with rollout behind, ahead, or anywhere; the lagging policies are in the channel."""
    run, scratch = manifest(tmp_path / "kept", "disaggregated", lag), tmp_path / "scratch"
    assert run_step("provision", step(run, scratch, 0)) == 0
    sides = [start(name, run, scratch / name, 0) for name in ("rollout", "update")]
    deadline = time.monotonic() + 60
    while not (tmp_path / "kept" / layout.iteration(3)).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for side in sides:
        side.kill()
        side.join()
    one = manifest(tmp_path / "kept", lag=lag)
    run_local(one, tmp_path / "run", SilentView(), MemoryTracker())
    assert records(tmp_path / "kept") == whole


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_where_what_was_played_is_gone_it_is_played_again(whole, lag, placement, tmp_path):
    """The only checkpoint that is kept is damaged, and what was played up to it is forgotten: the
    run goes back to the one that ends the first phase."""
    folder, scratch = tmp_path / "kept", tmp_path / "scratch"
    run = manifest(folder, placement, lag, update={"keepLast": 1})
    if placement == "colocated":
        run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    else:
        together(run, scratch)
    newest = folder / layout.checkpoint(10, "model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    (folder / layout.evaluation("after")).unlink()
    if placement == "colocated":
        run_local(run, tmp_path / "run", SilentView(), MemoryTracker())
    else:
        together(run, scratch)
    assert records(folder) == whole


@pytest.mark.parametrize(
    ("lag", "policies"), [(0, ["4", "5"]), (1, ["3", "4", "5"]), (3, ["1", "2", "3", "4", "5"])]
)
def test_what_was_learnt_from_is_kept_until_two_checkpoints_cover_it(lag, policies, tmp_path):
    """Checkpoints are those of 0, 2, 4 and 5 iterations; the last two are kept."""
    run = manifest(tmp_path / "kept", "disaggregated", lag)
    assert run_step("provision", step(run, tmp_path / "a", 0)) == 0
    player = threading.Thread(target=run_step, args=("rollout", step(run, tmp_path / "a", 0)))
    player.start()
    assert run_step("update", step(run, tmp_path / "b", 0)) == 0
    player.join()
    store = DirectoryStore(tmp_path / "kept")
    (key,) = store.list(layout.TRAJECTORIES)
    assert layout.played(key) == (4, {0: 4, 1: 3, 3: 1}[lag])
    kept = {key.split("/")[1] for key in store.list(layout.POLICIES)}
    assert kept == {f"00000{policy}" for policy in policies}


def test_a_mistake_is_told_as_final_and_a_broken_store_is_not(tmp_path):
    run = manifest(tmp_path / "kept")
    assert run_step("provision", step(run, tmp_path / "s", 0)) == 0
    other = run.model_copy(update={"spec": run.spec.model_copy(update={"seed": 1})})
    ended = tmp_path / "termination-log"
    ended.touch()
    assert run_step("train", step(other, tmp_path / "s", 0), ended) == 2
    told = json.loads(ended.read_text())
    assert (told["reason"], told["final"]) == ("SpecError", True)
    assert "spec.seed" in told["message"]
    state = read_state(DirectoryStore(tmp_path / "kept"))
    assert (state.status, state.reason, state.final) == ("failed", "SpecError", True)

    (tmp_path / "kept" / layout.RUN).write_bytes(b"{")
    assert run_step("expand", step(run, tmp_path / "s", 0), ended) == 1
    assert json.loads(ended.read_text())["final"] is False


def test_a_later_phase_does_not_begin_in_a_store_that_does_not_hold_the_run(tmp_path):
    """As when storage.endpoint was changed to a service that has nothing of it."""
    run = manifest(tmp_path / "elsewhere")
    assert run_step("provision", step(run, tmp_path / "s", 1)) == 1
    state = read_state(DirectoryStore(tmp_path / "elsewhere"))
    assert (state.reason, state.final) == ("StoreError", False)
    assert "holds nothing of this run" in state.message


def test_the_other_side_gives_up_when_its_partner_has_failed_for_good(tmp_path):
    run = manifest(tmp_path / "kept", "disaggregated")
    assert run_step("provision", step(run, tmp_path / "s", 0)) == 0
    store = DirectoryStore(tmp_path / "kept")
    cause = {"status": "failed", "reason": "ModelError", "message": "no weights", "final": True}
    state = read_state(store).model_copy(update=cause)
    store.replace(layout.STATE, state.model_dump_json().encode())
    assert run_step("rollout", step(run, tmp_path / "s", 0)) == 1
    assert read_state(store) == state, "what the partner failed of is what the run failed of"


def test_what_the_launcher_asks_for_is_where_it_looks(tmp_path):
    told = {
        "outputs": {
            "artifacts": {
                "checkpoint": {"artifacts": [{"name": "7", "uri": "s3://bucket/out/checkpoint"}]},
            },
            "outputFile": f"{tmp_path}/out/output.json",
        }
    }
    artifacts = Artifacts(json.dumps(told), tmp_path / "s")
    assert artifacts.path("report") == tmp_path / "s/artifacts/report"
    artifacts.describe("checkpoint", {"iteration": 5})
    artifacts.close()
    output = json.loads((tmp_path / "out/output.json").read_text())
    (described,) = output["artifacts"]["checkpoint"]["artifacts"]
    assert described == {
        "name": "7", "uri": "s3://bucket/out/checkpoint", "metadata": {"iteration": 5},
    }  # fmt: skip
