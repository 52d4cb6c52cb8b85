"""The folder of `agentrl eval`, which has the result of one evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from agentrl_components.errors import SpecError
from agentrl_components.evaluation.episode_log import DESCRIPTION
from agentrl_pipelines.local.run_folder import store_errors

RESULT = "eval.json"


def check_folder(folder: Path, model: str, settings: Mapping[str, object] | None) -> None:
    """Check, before hours of play, that a result may be written to `folder`.

    Args:
        folder: it need not exist, and is not created.
        model: what is evaluated, as in `eval.json`.
        settings: how it is evaluated, as in `eval.json`. None: the evaluation is one of an
            endpoint, whose episodes are kept in the folder with what they depend on.

    Raises:
        StoreError: the folder cannot be written to.
        SpecError: it has another evaluation.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with store_errors(folder):
        try:
            with TemporaryFile(dir=there, prefix="."):
                pass
        except OSError as error:  # without the name of the temporary file
            raise OSError(error.errno, error.strerror) from error
    if settings is not None and (folder / DESCRIPTION).exists():
        raise _taken(folder, "it has the episodes of an endpoint")
    found = _described(folder / RESULT)
    if found is None:
        return
    given = {"model": model} | dict(settings or {})
    for field in given if settings is None else {**given, **found}:
        if found.get(field) != given.get(field):
            raise _taken(folder, f"its {field} is {found.get(field)}, not {given.get(field)}")


def _described(path: Path) -> Mapping[str, object] | None:
    """The model and the settings of a result. None: there is none, or it was not written to its
    end."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return {"model": found["model"], **found.get("settings", {})}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _taken(folder: Path, reason: str) -> SpecError:
    return SpecError(
        [
            f"--out: {folder} has the result of another evaluation ({reason}); name another "
            "folder, or remove it"
        ]
    )
