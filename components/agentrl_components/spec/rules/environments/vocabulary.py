"""The words of environments, which are the vocabulary of a tiny model.

A word that is not in the vocabulary is `<unk>` for the model: with an environment that does not
list its words, a tiny model can neither read nor act.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl_components.errors import SpecError
from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake
from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.calls.watch import WATCH
from agentrl_envs.errors import OptionError
from agentrl_envs.registry import BUILT_IN, is_installed, task_set

Words = Sequence[str] | None
"""The vocabulary of an environment. None or empty: it lists no words."""

UNOPENED: Words = ("?",)
"""Stands for the words of an environment that cannot be opened here: opening it for the run gives
the reason."""


def check_vocabularies(spec: RunSpec) -> None:
    """As `check_words`, for those environments that can be opened on this machine without a
    server."""
    if spec.model.source == "tiny":
        here = [environment for environment in spec.environments if _is_here(environment)]
        check_words(spec, {one.name: _words(one, one.options) for one in here})


def check_words(spec: RunSpec, words: Mapping[str, Words]) -> None:
    """Raise `SpecError` if the model is tiny and one of the environments in `words`, by name, does
    not list its words."""
    if spec.model.source == "tiny":
        found = [
            str(_mistake(index, environment))
            for index, environment in enumerate(spec.environments)
            if environment.name in words and not words[environment.name]
        ]
        if found:
            raise SpecError(found)


def _mistake(index: int, environment: Environment) -> Mistake:
    own = "return every word of its texts and actions from vocabulary() of its task set"
    if environment.builtin in BUILT_IN:
        terse = "text" in BUILT_IN[environment.builtin].options_model().model_fields and _words(
            environment, environment.options | {"text": "terse"}
        )
        own = f"set spec.environments[{index}].options.text to terse" if terse else ""
    return Mistake(
        field="spec.model.source",
        reason="is tiny, whose words are those of the environments, and vocabulary() of "
        f"environment {environment.name} lists none: every word would be <unk>",
        fix="use a pretrained model, such as hf://Qwen/Qwen3-0.6B" + (f", or {own}" if own else ""),
    )


def _is_here(environment: Environment) -> bool:
    name = environment.builtin
    return name is not None and (name in BUILT_IN or is_installed(name))


def _words(environment: Environment, options: Mapping[str, Any]) -> Words:
    """The words of a task set of this machine, `UNOPENED` if it cannot be opened."""
    assert environment.builtin is not None
    try:
        with (
            code_errors(environment.name),
            WATCH.call(environment.name, "construction of its task set"),
        ):
            return task_set(environment.builtin, options).vocabulary()
    except OptionError:
        return UNOPENED
