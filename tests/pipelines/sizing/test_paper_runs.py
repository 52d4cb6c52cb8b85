"""Plans of the manifests with the paper's hyper-parameters."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from qwen import QWEN_3B, QWEN_7B

from agentrl_components.spec import load
from agentrl_pipelines.sizing.devices import DEVICES
from agentrl_pipelines.sizing.plan import make_plan

PAPER = sorted((Path(__file__).parents[3] / "examples" / "paper").glob("*.yaml"))


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_papers_runs_fit_on_eight_gpus_of_80_gb(path):
    spec = load(str(path)).spec
    plan = make_plan(spec, QWEN_7B, DEVICES["h100"])
    assert plan.layout.devices == 8
    assert plan.problems == ()
    assert make_plan(spec, QWEN_3B, DEVICES["h100"]).problems == ()


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_papers_runs_on_ray_compile_their_updates(path):
    assert load(str(path)).spec.update.compile


def test_there_is_a_run_of_the_paper_for_each_world():
    assert [path.stem for path in PAPER] == [
        f"{world}-7b" for world in ("babyai", "sciworld", "search", "textcraft", "web")
    ]


ON_ONE = (
    "model.lora.rank=32",
    "update.learningRate=2e-5",
    "update.compile=false",
    "compute.ray=null",
    "compute.trainers=null",
    "compute.samplers=null",
)


@pytest.mark.parametrize("shape", [QWEN_3B, QWEN_7B], ids=["3b", "7b"])
@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_adapters_of_both_models_fit_on_one_gpu_in_each_world(path, shape):
    plan = make_plan(load(str(path), ON_ONE).spec, shape, DEVICES["h100"])
    assert plan.layout.devices == 1
    assert plan.problems == ()


def test_the_guide_states_the_changes_and_the_hours_of_one_gpu_that_are_planned():
    guide = (PAPER[0].parents[2] / "docs" / "train-7b.md").read_text()
    assert " ".join(f"--set {change}" for change in ON_ONE) in guide
    hours = {
        path.stem: make_plan(load(str(path), ON_ONE).spec, QWEN_7B, DEVICES["h100"]).hours
        for path in PAPER
    }
    assert max(hours, key=lambda name: hours[name] or 0) == "sciworld-7b"
    assert f"up to\n{hours['sciworld-7b']:.1f} hours" in guide
    on_eight = make_plan(load(str(PAPER[1])).spec, QWEN_7B, DEVICES["h100"]).hours
    assert f"up to {on_eight:.1f} hours on eight GPUs" in guide


def test_the_guide_states_what_the_iterations_between_two_checkpoints_take():
    guide = (PAPER[0].parents[2] / "docs" / "train-7b.md").read_text()
    (textcraft,) = [path for path in PAPER if path.stem == "textcraft-7b"]
    spec = load(str(textcraft)).spec
    duration = make_plan(spec, QWEN_7B, DEVICES["h100"]).phases[-1].duration
    assert duration is not None
    hours = spec.update.checkpoint_every * (duration.rollout + duration.update) / 3600
    turns = spec.horizon.phases[-1].max_turns
    assert f"TextCraft's {turns} turns {hours:.1f} hours" in guide


def test_on_four_gpus_three_hold_the_trainers():
    changes = ("compute.trainers.count=3", "compute.samplers.count=1")
    plan = make_plan(load(str(PAPER[3]), changes).spec, QWEN_7B, DEVICES["h100"])
    assert plan.layout.devices == 4
    assert plan.problems == ()


IN_TURNS = (
    "compute.shareGpus=true",
    "compute.trainers.count=8",
    "compute.samplers.count=8",
)


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ((*IN_TURNS, "compute.samplers.memoryShare=0.73"), "38.0 hours\n  on eight GPUs"),
        (("compute.shareGpus=true", "compute.samplers.memoryShare=0.55"), "58.5 on four"),
    ],
)
def test_the_guide_states_the_changes_and_the_hours_of_gpus_that_are_used_in_turns(changes, hours):
    guide = (PAPER[0].parents[2] / "docs" / "train-7b.md").read_text()
    assert " ".join(f"--set {change}" for change in changes) in guide
    assert hours in guide
    (sciworld,) = [path for path in PAPER if path.stem == "sciworld-7b"]
    plan = make_plan(load(str(sciworld), changes).spec, QWEN_7B, DEVICES["h100"])
    assert plan.problems == ()
    assert hours.startswith(f"{plan.hours:.1f} ")


def test_trainers_and_engines_that_use_gpus_in_turns_have_all_of_them_each():
    apart = load(str(PAPER[0])).spec
    spec = load(str(PAPER[0]), (*IN_TURNS, "compute.samplers.memoryShare=0.6")).spec
    plan = make_plan(spec, QWEN_7B, DEVICES["h100"])
    assert plan.layout.devices == 8
    assert plan.problems == ()
    before = make_plan(apart, QWEN_7B, DEVICES["h100"]).phases[-1].duration
    duration = plan.phases[-1].duration
    assert duration is not None
    assert before is not None
    assert duration.update < 0.6 * before.update
    assert duration.rollout < before.rollout


def test_an_engine_leaves_the_memory_of_what_a_trainer_keeps_on_its_gpu():
    spec = load(str(PAPER[0]), IN_TURNS).spec  # memoryShare: 0.9
    plan = make_plan(spec, QWEN_7B, DEVICES["h100"])
    # An eighth of float32 weights and two moments, and of the reference policy, the reserve, and
    # what hands over the embedding while other engines are awake.
    kept = math.ceil(16 * plan.size.total / 8) + (2 << 30) + 9 * QWEN_7B.vocabulary * QWEN_7B.hidden
    assert abs(plan.trainer.resident - kept) < 8
    (problem,) = plan.problems
    assert problem.field == "spec.compute.samplers.memoryShare"
    share = math.floor(100 * (1 - kept / DEVICES["h100"].memory)) / 100
    assert problem.fix == f"set it to {share:g} or less"
    less = load(str(PAPER[0]), (*IN_TURNS, f"compute.samplers.memoryShare={share}")).spec
    assert make_plan(less, QWEN_7B, DEVICES["h100"]).problems == ()


def test_more_trainers_are_named_where_one_keeps_more_than_a_gpu_has():
    changes = ("compute.shareGpus=true", "compute.trainers.count=1", "compute.samplers.count=1")
    plan = make_plan(load(str(PAPER[0]), changes).spec, QWEN_7B, DEVICES["h100"])
    (problem,) = plan.problems
    assert problem.field == "spec.compute.trainers.count"
    assert "set it to 4 and samplers.count to as many" in problem.fix


def test_more_trainers_are_named_where_what_one_keeps_leaves_no_room_for_an_engine():
    smaller = ("model.context=2048", "update.microBatchTokens=2048")
    spec = load(str(PAPER[0]), (*IN_TURNS, *smaller)).spec
    plan = make_plan(spec, replace(QWEN_7B, layers=96), DEVICES["h100"])  # 23.5 B parameters
    (problem,) = [one for one in plan.problems if "takes" in one.reason]
    assert problem.field == "spec.compute.trainers.count"
    assert problem.reason.startswith("is 8; a trainer takes 50.3 GiB of a h100 while vLLM samples")
