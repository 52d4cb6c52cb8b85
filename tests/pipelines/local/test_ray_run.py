"""A run on an embedded Ray: the same results again, and after actors were killed; episodes that
stream while the learner works."""

import importlib.util
import json
import os
import signal
from pathlib import Path
from statistics import fmean

import pytest
from corridor_run import manifest
from local_run import results, run_to_end

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_pipelines.cli.commands.metrics import lines
from agentrl_pipelines.local.run import run_local

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

RAY = {"workers": 0, "ray": "embedded", "trainers": {"count": 2}, "samplers": {"count": 2}}

STREAM_METRICS = (
    "train/staleness",
    "train/staleness_max",
    "rollout/queue_depth",
    "rollout/groups_under_way",
    "rollout/groups_dropped",
    "rollout/idle_share",
    "update/idle_share",
)


class KillingView(SilentProgressView):
    """Kills an actor of this process's Ray after some iterations."""

    def __init__(self, victims):
        super().__init__()
        self.victims = dict(victims)
        """Class of the actor by iteration."""

    def iteration(self, progress):
        super().iteration(progress)
        victim = self.victims.pop(progress.iteration, None)
        if victim is not None:
            os.kill(processes(f"ray::{victim}")[0], signal.SIGKILL)


def processes(name):
    """Descendants of this process whose command line starts with `name`."""
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
        if above == os.getpid() and line.startswith(name):
            found.append(process)
    return sorted(found)


@pytest.mark.parametrize(("lag", "interrupt"), [(1, "finish"), (2, "continue")])
def test_a_run_whose_episodes_stream_learns_and_no_token_is_too_old(tmp_path, lag, interrupt):
    tracker = MemoryTracker()
    run = manifest(
        compute=RAY | {"trainers": {"count": 1}},
        warmStart={"episodes": 200},
        horizon={"phases": [{"maxTurns": 4, "iterations": 30}]},
        rollout={"tasks": 8, "groupSize": 8, "maxStaleness": lag, "interrupt": interrupt},
        algorithm={"entropy": 0.02},
        update={"checkpointEvery": 100},
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
    assert fmean(success[-10:]) > fmean(success[:5]) + 0.1


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
        rollout={"tasks": 4, "groupSize": 2, "maxStaleness": 1, "engine": "vllm"},
        evaluation={"every": 0, "tasks": 8},
    )
    run_local(run, tmp_path, SilentProgressView(), tracker)
    training = [tracker.recorded[number] for number in range(1, 5)]
    # Two layers; A is [4, 64] and B [64, 4], for q and v; float32.
    sent = [metrics["train/hand_over_bytes"] for metrics in training]
    assert sent[1:] == [2 * 2 * 2 * 4 * 64 * 4] * 3
    assert max(metrics["train/staleness_max"] for metrics in training) <= 1
    assert max(metrics.get("rollout/prefix_hits", 0) for metrics in training) > 0.2


def test_a_run_whose_episodes_stream_ends_although_actors_were_killed(tmp_path):
    tracker = MemoryTracker()
    view = KillingView({2: "Sampler", 4: "RankActor", 6: "Sampler"})
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


def test_results_are_the_same_again_and_after_actors_were_killed(tmp_path):
    run_to_end(manifest(compute=RAY), tmp_path / "calm")
    view = KillingView({3: "Sampler", 5: "RankActor", 7: "Sampler", 8: "RankActor"})
    run_to_end(manifest(compute=RAY), tmp_path / "killed", view)
    assert not view.victims
    assert sum("resumes from its last checkpoint" in note for note in view.notes) == 2
    assert results(tmp_path / "killed") == results(tmp_path / "calm")
