"""The text form of built-in environments, and which models can read it.

`text: terse` is a code for small models that are trained with it: a few words, and no instructions.
A model that was not trained with it does not know what it may reply.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.registry import BUILT_IN

LOADED = ("file://", "s3://", "models:/")
"""Sources of models that may be pretrained ones or checkpoints of a run. Which one is not in the
manifest, so a default of `terse` is a warning there and no mistake: with the checkpoint of a run it
is the text that the model was trained with."""


def default_terse_texts(spec: RunSpec) -> Iterator[Mistake]:
    """Environments that write terse text because `options.text` is not set."""
    for index, environment in enumerate(spec.environments):
        if "text" not in environment.options and _default_text(environment.builtin) == "terse":
            yield Mistake(
                field=f"spec.environments[{index}].options.text",
                reason="is missing: the default, terse, has no instructions, which a pretrained "
                "model needs",
                fix="set it to agentgym, or to terse for a model that was trained with it",
            )


def _default_text(builtin: str | None) -> str | None:
    """The default of `options.text`, or None for an environment that has no such option, is of
    another package or cannot be imported here."""
    if builtin not in BUILT_IN:
        return None
    try:
        option = BUILT_IN[builtin].options_model().model_fields.get("text")
    except ModuleNotFoundError:
        return None
    return None if option is None else str(option.default)


@rule("environments.*.builtin", "environments.*.options", "model.source")
def text_fits_model(spec: RunSpec) -> Iterator[Mistake]:
    """An hf:// model in babyai, miniwob or sciworld requires options.text, whose default has no
    instructions."""
    if spec.model.source.startswith("hf://"):
        yield from default_terse_texts(spec)


RULES: tuple[Rule, ...] = (text_fits_model,)
