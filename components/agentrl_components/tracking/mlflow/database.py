"""Create the SQLite database of MLflow in a run's folder atomically.

MLflow creates it in dozens of migration steps over several seconds and cannot use a partial one. If
the worker were killed meanwhile, the run could never be shown in MLflow.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

MEMORY = ":memory:"
"""SQLite's name of an in-memory database."""


def create_database(uri: str) -> None:
    """Create the database that `uri` names, if it is a SQLite file that does not exist.

    It is created under a temporary name and renamed when complete. Raises what MLflow raises."""
    if not uri.startswith("sqlite:"):
        return
    from mlflow import MlflowClient
    from sqlalchemy import make_url

    url = make_url(uri)
    path = Path(url.database or MEMORY)
    if path.exists() or path.name == MEMORY:
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder:
        complete = Path(folder) / path.name
        temporary = url.set(database=str(complete)).render_as_string(hide_password=False)
        MlflowClient(temporary).search_experiments(max_results=1)
        if not path.exists():  # another process may have created it
            complete.rename(path)
