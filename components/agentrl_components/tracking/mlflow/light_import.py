"""Halve the import time of the MLflow client by leaving out two of its imports.

`import mlflow` loads `mlflow.genai` (LLM judges) and pandas (tabular data sets). Recording on a
tracking server needs neither; a local database needs both. `mlflow.genai` is loaded lazily, and
pandas is reported as not installed, as in `mlflow-skinny`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

LAZY = "mlflow.genai"
BLOCKED = "pandas"


class LazyFinder(MetaPathFinder):
    """Finds the module `LAZY` and defers loading it to the first attribute access."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LAZY:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def lighten_import(uri: str) -> None:
    """Apply to the current process, before it imports MLflow, if `uri` is a tracking server."""
    if not uri.startswith(("http://", "https://")):
        return
    sys.meta_path.insert(0, LazyFinder())
    sys.modules.setdefault(BLOCKED, None)  # type: ignore[arg-type]
