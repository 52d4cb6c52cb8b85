"""The manifests, options and values of the chart in docs/train-7b.md are valid."""

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest
import yaml
from repository import ROOT

from agentrl_components.spec.parsing.load import load

PAGE = (ROOT / "docs/train-7b.md").read_text("utf-8")
EXAMPLE = ROOT / "examples/paper/textcraft-7b.yaml"
VALUES, COMPUTE = (
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.M)
)
COPY = f"compute={COMPUTE['compute']}"
"""The override that makes the example the manifest which the page describes."""
COMMANDS = re.findall(
    r"^    (agentrl (?:validate|plan|run|submit) .*)$", PAGE.replace("\\\n", ""), re.M
)
OPTIONS = sorted(set(re.findall(r"`(--set [^`]+)`", PAGE)))


def overrides(text: str) -> list[str]:
    words = shlex.split(text)
    return [after for word, after in pairwise(words) if word == "--set"]


def names(mapping: Any) -> set[str]:
    """Paths of all keys of nested mappings."""
    if not isinstance(mapping, dict):
        return set()
    below = {f"{key}.{path}" for key, value in mapping.items() for path in names(value)}
    return set(mapping) | below


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_valid_manifest(command: str) -> None:
    copied = "examples/" not in command
    run = load(EXAMPLE, [COPY] * copied + overrides(command))
    if copied:
        assert run.spec.compute.ray == "cluster"


@pytest.mark.parametrize("options", OPTIONS)
def test_options_in_the_text_are_valid(options: str) -> None:
    load(EXAMPLE, overrides(options))


def test_the_options_of_the_command_are_the_fields_of_the_copied_manifest() -> None:
    (command,) = (one for one in COMMANDS if "submit examples/" in one)
    optional = {"tolerations": (), "secret_env": ()}
    copied = load(EXAMPLE, [COPY]).spec.compute.model_copy(update=optional)
    assert load(EXAMPLE, overrides(command)).spec.compute == copied


def test_the_chart_has_the_values() -> None:
    chart = yaml.safe_load((ROOT / "helm/agentrl/values.yaml").read_text("utf-8"))
    assert names(VALUES) <= names(chart)
