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


def check_folder(folder: Path, described: Mapping[str, object], *, endpoint: bool) -> None:
    """Check, before hours of play, that a result may be written to `folder`.

    Args:
        folder: it need not exist, and is not created.
        described: what is evaluated, and how: fields of `eval.json`, and `temperature`.
        endpoint: the evaluation is one of an endpoint, whose episodes are kept in the folder.

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
    if not endpoint and (folder / DESCRIPTION).exists():
        raise _taken(folder, "it has the episodes of an endpoint")
    found = _described(folder / RESULT)
    for field, value in described.items():
        if found and found.get(field) != value:
            raise _taken(folder, f"its {field} is {found.get(field)}, not {value}")


def _described(path: Path) -> Mapping[str, object]:
    """The fields of a result. Empty: there is none, or it was not written to its end."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found | {"temperature": found["policy"]["temperature"]}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return {}


def _taken(folder: Path, reason: str) -> SpecError:
    return SpecError(
        [
            f"--out: {folder} has the result of another evaluation ({reason}); name another "
            "folder, or remove it"
        ]
    )
