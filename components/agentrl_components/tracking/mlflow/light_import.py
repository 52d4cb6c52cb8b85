"""MLflow's client in half the time: of what MLflow loads with it, two parts are left out.

`import mlflow` loads what judges and optimises language models, and pandas for data sets that are
tables. Recording on a server needs neither; MLflow's own database does. The first is loaded when
something asks for it, the second is said not to be installed, as with MLflow's `skinny` form.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

LATER = "mlflow.genai"
NEVER = "pandas"


class Later(MetaPathFinder):
    """Finds `LATER`, to be loaded at the first use of anything in it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LATER:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found


def lighten(uri: str) -> None:
    """For a process that only records at `uri`, before it imports MLflow."""
    if not uri.startswith(("http://", "https://")):
        return
    sys.meta_path.insert(0, Later())
    sys.modules.setdefault(NEVER, None)  # type: ignore[arg-type]
