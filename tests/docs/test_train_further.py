"""The manifest of docs/train-further.md is valid, without a warning, and its message is the
product's."""

import re

import yaml
from repository import ROOT

from agentrl_components.schedule.learning_rate import (
    critic_learning_rate,
    warm_start_learning_rate,
)
from agentrl_components.spec import parse
from agentrl_components.spec.fields.warmstart import WarmStart
from agentrl_components.spec.rules.warnings import manifest_warnings

PAGE = (ROOT / "docs/train-further.md").read_text("utf-8")


def shown() -> dict:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return yaml.safe_load(block)


def test_the_manifest_is_valid_and_has_no_warning():
    assert list(manifest_warnings(parse(shown()).spec)) == []


def test_it_continues_the_demo():
    """Model, environment and rollout fit those of the run that it goes on from."""
    demo = yaml.safe_load((ROOT / "examples/babyai.yaml").read_text("utf-8"))["spec"]
    spec = shown()["spec"]
    assert spec["rollout"] == demo["rollout"]
    assert spec["model"]["context"] == demo["model"]["context"]
    assert spec["horizon"]["phases"][-1]["maxTurns"] == demo["horizon"]["phases"][-1]["maxTurns"]
    done = sum(phase["iterations"] for phase in demo["horizon"]["phases"])
    assert spec["model"]["source"].endswith(f"/{done:06d}")
    assert f"began with {demo['horizon']['phases'][2]['iterations']}, not" in PAGE


def test_the_rates_without_a_learning_rate_are_those_of_a_pretrained_model():
    spec = parse(shown()).spec
    assert critic_learning_rate(spec, 0) == 1e-5
    assert warm_start_learning_rate(spec, WarmStart(algorithm="hindsight")) == 1e-5
    assert "have the rates of a pretrained model, 1e-5" in PAGE
