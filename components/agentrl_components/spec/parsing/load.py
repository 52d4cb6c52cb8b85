"""A manifest from a file, with every mistake told at once.

    run = load(Path("examples/babyai.yaml"), overrides=("seed=3",))

`SpecError.mistakes` holds a line for each mistake: field, reason, fix. Rules between fields are
asked even while other fields are wrong, as far as they do not read a wrong one.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentrl_components.errors import SpecError
from agentrl_components.spec.fields.run import AgentRLRun, RunSpec
from agentrl_components.spec.parsing.document import Document, document
from agentrl_components.spec.parsing.override import apply
from agentrl_components.spec.parsing.wording import reworded
from agentrl_components.spec.rules import mistakes
from agentrl_envs.registry import option_mistakes

Checked = TypeVar("Checked", AgentRLRun, RunSpec)

_STAND_INS: Document = {
    "environments": [{"name": "stand-in"}],
    "name": "stand-in",
    "horizon": {},
    "phases": [{}],
    "maxTurns": 1,
    "iterations": 1,
    "algorithm": "hindsight",
}
"""A value for every required field under `spec`, by its name, so that rules about other fields can
be asked without it."""


def load(path: Path | str, overrides: Sequence[str] = ()) -> AgentRLRun:
    """The run in the YAML file at `path`, with `field=value` overrides laid over it.

    An override's field is a path under `spec` or from the root: `seed=3`, `spec.seed=3`,
    `horizon.phases[0].maxTurns=2`, `horizon.phases.0.maxTurns=2`; its value is YAML.

    Raises `SpecError` with every mistake: of the file, of the overrides, of fields and of rules."""
    read = document(_text(Path(path)), str(path))
    wrong = apply(read, overrides)
    try:
        run = parse(read)
    except SpecError as error:
        raise SpecError(wrong + error.mistakes) from None
    wrong += _wrong_options(run)
    if wrong:
        raise SpecError(wrong)
    return run


def _wrong_options(run: AgentRLRun) -> list[str]:
    """What built-in environments say of their options."""
    return [
        f"spec.environments[{index}].options.{line}"
        for index, environment in enumerate(run.spec.environments)
        if environment.builtin is not None
        for line in option_mistakes(environment.builtin, environment.options)
    ]


def parse(read: Mapping[str, Any]) -> AgentRLRun:
    """The run in a document that is already data, such as an object of the Kubernetes API. Its
    `status` is left aside. Raises `SpecError` with every mistake."""
    manifest = {name: value for name, value in read.items() if name != "status"}
    try:
        run = _strict(AgentRLRun, manifest)
    except ValidationError as error:
        errors = _told(error)
        lines = [str(reworded(one)) for one in errors]
        raise SpecError(lines + _broken_rules(manifest.get("spec"), errors)) from None
    broken = [str(mistake) for mistake in mistakes(run.spec)]
    if broken:
        raise SpecError(broken)
    return run


def dump(run: AgentRLRun) -> str:
    """The manifest as YAML: the fields that were set, as they are written in a manifest."""
    return yaml.safe_dump(
        run.model_dump(mode="json", by_alias=True, exclude_unset=True),
        sort_keys=False,
        allow_unicode=True,
    )


def flatten(run: AgentRLRun) -> dict[str, str]:
    """Every value of `spec`, defaults too, by its path: `horizon.phases.0.maxTurns` -> `"3"`.

    Texts stand for themselves, everything else is JSON; empty lists and mappings are left out."""
    flat: dict[str, str] = {}
    _flatten(run.spec.model_dump(mode="json", by_alias=True), "", flat)
    return flat


def _flatten(value: Any, path: str, flat: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else name, flat)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _flatten(inner, f"{path}.{index}", flat)
    else:
        flat[path] = value if isinstance(value, str) else json.dumps(value)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError([f"{path}: there is no such file; check the path"]) from None
    except IsADirectoryError:
        raise SpecError([f"{path}: is a folder; name the manifest in it"]) from None
    except UnicodeDecodeError:
        raise SpecError([f"{path}: is not UTF-8 text; name a YAML file"]) from None
    except OSError as error:
        raise SpecError([f"{path}: cannot be read: {error.strerror}; check the path"]) from None


def _strict(kind: type[Checked], read: Any) -> Checked:
    """By way of JSON, where strict still takes a list for a tuple and a text for a URL."""
    return kind.model_validate_json(json.dumps(read), strict=True, by_alias=True, by_name=False)


def _told(error: ValidationError) -> list[ErrorDetails]:
    """The errors worth telling: a list whose only item is wrong is not also too short."""
    return [
        one
        for one in error.errors(include_url=False)
        if not (one["type"] == "too_short" and one["input"])
    ]


def _broken_rules(spec: Any, errors: Iterable[ErrorDetails]) -> list[str]:
    """What the rules find in what remains of `spec` when its wrong fields are taken out."""
    if not isinstance(spec, dict):
        return []
    wrong = {".".join(map(str, one["loc"][1:])) for one in errors if _counts(one)}
    mended = _mended(spec, wrong)
    return [str(mistake) for mistake in mistakes(mended, wrong)]


def _counts(error: ErrorDetails) -> bool:
    """Whether a field that rules may read is wrong; an unknown one is read by none."""
    return error["loc"][0] == "spec" and error["type"] != "extra_forbidden"


def _mended(spec: Document, wrong: set[str]) -> RunSpec:
    """`spec` without its wrong fields, and with stand-ins for required ones. Adds to `wrong` what
    only shows when others are mended. Each round takes wrong values out or puts valid ones in, so
    it ends."""
    rest = copy.deepcopy(spec)
    while True:
        try:
            return _strict(RunSpec, rest)
        except ValidationError as error:
            errors = _told(error)
        for one in reversed(errors):  # the last item of a list first, so that places keep
            *around, name = one["loc"]
            holder = functools.reduce(operator.getitem, around, rest)
            if one["type"] == "missing":
                holder[name] = copy.deepcopy(_STAND_INS[str(name)])
            else:
                del holder[name]
            if one["type"] != "extra_forbidden":
                wrong.add(".".join(map(str, one["loc"])))
