"""A run on an embedded Ray: the same results again, and after its processes were killed; episodes
that stream while the learner works."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import psutil
import pytest
from corridor_run import manifest
from local_run import AGENTRL, results, run_to_end
from started import started

from agentrl_components.errors import Stopped
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import dump
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.cli.commands.metrics import lines
from agentrl_pipelines.local.run import run_local

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

RAY = {
    "workers": 0,
    "device": "auto",
    "ray": "embedded",
    "trainers": {"count": 2},
    "samplers": {"count": 2},
}

STREAM_METRICS = (
    "train/staleness",
    "train/staleness_max",
    "rollout/queue_depth",
    "rollout/groups_under_way",
    "rollout/lead",
    "rollout/groups_dropped",
    "rollout/idle_share",
    "update/idle_share",
)


class KillingView(SilentProgressView):
    """Kills a process of this process's Ray after some iterations."""

    def __init__(self, victims):
        super().__init__()
        self.victims = dict(victims)
        """Name of the program by iteration."""

    def iteration(self, progress):
        super().iteration(progress)
        victim = self.victims.pop(progress.iteration, None)
        if victim is not None:
            os.kill(processes(victim)[0], signal.SIGKILL)


def processes(name):
    """Descendants of this process whose program's name starts with `name`."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            names[int(folder.name)] = (folder / "cmdline").read_text()
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rsplit(")")[-1].split()[1]
            )
        except OSError:
            continue  # it has ended
    found = []
    for process, line in names.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and Path(line.split("\0")[0]).name.startswith(name):
            found.append(process)
    return sorted(found)


@pytest.mark.parametrize(
    ("lag", "interrupt"), [(1, "finish"), pytest.param(2, "continue", marks=pytest.mark.load)]
)
def test_a_run_whose_episodes_stream_learns_and_no_token_is_too_old(tmp_path, lag, interrupt):
    tracker = MemoryTracker()
    run = manifest(
        compute=RAY | {"trainers": {"count": 1}},
        warmStart={"episodes": 200},
        horizon={"phases": [{"maxTurns": 4, "iterations": 30}]},
        rollout={"tasks": 8, "groupSize": 8, "maxStaleness": lag, "interrupt": interrupt},
        algorithm={"entropy": 0.02},
        update={"checkpointEvery": 100, "learningRate": 1e-3, "miniBatch": 32},
        evaluation={"every": 0, "tasks": 40},
    )
    run_local(run, tmp_path, SilentProgressView(), tracker)
    training = [tracker.recorded[number] for number in range(1, 31)]
    assert max(metrics["train/staleness_max"] for metrics in training) <= lag
    assert sum(metrics["train/staleness"] for metrics in training) > 0
    for metrics in training:
        assert metrics["rollout/queue_depth"] + metrics["rollout/groups_under_way"] <= 8 * lag
        assert 0 <= metrics["rollout/idle_share"] <= 1
        assert 0 <= metrics["update/idle_share"] <= 1
        assert 0 <= metrics.get("rollout/prefix_hits", 0) < 1
        assert metrics["rollout/groups_dropped"] == 0
    printed = [json.loads(line)["metrics"] for line in lines(DirectoryStore(tmp_path / "store"))]
    for name in STREAM_METRICS:
        assert [one[name] for one in printed] == [metrics[name] for metrics in training]
    success = [metrics["train/success"] for metrics in training]
    # With lag the bits differ between runs. Some have learnt after the third iteration, and with
    # the larger steps of `corridor_run` some forget it again.
    assert fmean(success[-10:]) > fmean(success[:3]) + 0.1


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
def test_adapters_reach_vllm_after_each_update_and_turns_find_their_prefix_in_its_cache(tmp_path):
    tracker = MemoryTracker()
    tiny = {"layers": 2, "hidden": 64, "heads": 2, "kvHeads": 2, "intermediate": 64}
    lora = {"rank": 4, "targets": ["q_proj", "v_proj"]}
    run = manifest(
        model={"source": "tiny", "context": 128, "tiny": tiny, "lora": lora},
        compute=RAY | {"trainers": {"count": 1}, "samplers": {"count": 1}},
        warmStart={"episodes": 40},
        horizon={"phases": [{"maxTurns": 8, "iterations": 4}]},
        rollout={
            "tasks": 4,
            "groupSize": 2,
            "maxStaleness": 1,
            "interrupt": "continue",
            "engine": "vllm",
        },
        evaluation={"every": 0, "tasks": 8},
    )
    run_local(run, tmp_path, SilentProgressView(), tracker)
    training = [tracker.recorded[number] for number in range(1, 5)]
    # Two layers; A is [4, 64] and B [64, 4], for q and v; float32.
    sent = [metrics["train/hand_over_bytes"] for metrics in training]
    assert sent[1:] == [2 * 2 * 2 * 4 * 64 * 4] * 3
    assert max(metrics["train/staleness_max"] for metrics in training) <= 1
    assert max(metrics.get("rollout/prefix_hits", 0) for metrics in training) > 0.2


@pytest.mark.load
def test_a_run_whose_episodes_stream_ends_although_actors_were_killed(tmp_path):
    tracker = MemoryTracker()
    view = KillingView({2: "ray::Sampler", 4: "ray::RankActor", 6: "ray::Sampler"})
    run = manifest(
        compute=RAY | {"trainers": {"count": 1}},
        warmStart=None,
        horizon={"phases": [{"maxTurns": 3, "iterations": 8}]},
        rollout={"maxStaleness": 1},
        evaluation={"every": 0, "tasks": 12},
    )
    run_local(run, tmp_path, view, tracker)
    assert not view.victims
    assert sum("resumes from its last checkpoint" in note for note in view.notes) == 1
    assert sorted(tracker.recorded)[-1] == 8
    assert all(tracker.recorded[n]["train/staleness_max"] <= 1 for n in range(1, 9))


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The results of a run in which nothing is killed."""
    root = tmp_path_factory.mktemp("calm")
    run_to_end(manifest(compute=RAY), root)
    return results(root)


def test_results_are_the_same_after_trainers_and_samplers_were_killed(calm, tmp_path):
    view = KillingView({3: "ray::Sampler", 5: "ray::RankActor", 7: "ray::Sampler"})
    run_to_end(manifest(compute=RAY), tmp_path, view)
    assert not view.victims
    assert sum("resumes from its last checkpoint" in note for note in view.notes) == 1
    assert results(tmp_path) == calm


@pytest.mark.load
def test_results_are_the_same_after_the_raylet_and_the_head_were_killed(calm, tmp_path):
    view = KillingView({4: "raylet", 7: "gcs_server"})
    run_to_end(manifest(compute=RAY), tmp_path, view)
    assert not view.victims
    assert sum("of Ray's node on this machine died" in note for note in view.notes) == 2
    assert results(tmp_path) == calm


@pytest.mark.load
def test_a_run_goes_on_after_its_driver_was_killed_and_nothing_of_it_is_left(calm, tmp_path):
    file, root = tmp_path / "run.yaml", tmp_path / "root"
    file.write_text(dump(manifest(compute=RAY)))
    command = [sys.executable, "-c", AGENTRL, "run", str(file), "--root", str(root)]
    unbuffered = os.environ | {"PYTHONUNBUFFERED": "1"}
    with started(command, env=unbuffered) as killed:
        assert any("phase 1 is over" in line for line in killed.stdout)
        below = psutil.Process(killed.pid).children(recursive=True)
        assert any(one.name().startswith("ray::RankActor") for one in below)
        killed.kill()
        killed.communicate()
        _, left = psutil.wait_procs(below, timeout=120)
    assert not left
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "resumed after iteration" in again.stdout
    assert results(root) == calm


def test_a_run_whose_deadline_has_passed_stops_before_its_actors_have_opened(tmp_path):
    """Regression: it opened all of them first."""
    journal = Journal(DirectoryStore(tmp_path / "store"))
    journal.wall_seconds["rollout"] = 100.0
    journal.write_state("running", "iteration 4")
    view = SilentProgressView()
    with pytest.raises(Stopped, match=r"\(100\) has passed; to go on, raise it"):
        run_to_end(manifest(compute=RAY, activeDeadlineSeconds=100), tmp_path, view)
    assert view.stages == []
    assert read_state(journal.store).status == "stopped"
