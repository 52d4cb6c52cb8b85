"""MLflow's own database in a run's folder: there whole, or not there.

MLflow makes it in dozens of steps, and can use none that was left half made: a worker that is
killed in the seconds which that takes would leave a run that MLflow never shows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

MEMORY = ":memory:"
"""What SQLite calls a database that is no file."""


def make_database(uri: str) -> None:
    """Make it beside where `uri` says, if it names a file that is not there, and give it its name
    when it is whole. Raises what MLflow raises."""
    if not uri.startswith("sqlite:"):
        return
    from mlflow import MlflowClient
    from sqlalchemy import make_url

    url = make_url(uri)
    path = Path(url.database or MEMORY)
    if path.exists() or path.name == MEMORY:
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder:
        whole = Path(folder) / path.name
        beside = url.set(database=str(whole)).render_as_string(hide_password=False)
        MlflowClient(beside).search_experiments(max_results=1)
        if not path.exists():  # else another process was quicker
            whole.rename(path)
