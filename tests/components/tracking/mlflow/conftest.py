from collections.abc import Iterator

import pytest
from mlflow_worker import Worker, running_worker


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The real worker: one process for all tests, because importing MLflow takes seconds."""
    with running_worker(tmp_path_factory.mktemp("mlflow")) as started:
        yield started
