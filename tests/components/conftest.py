"""A MinIO server, if the binary is installed."""

from __future__ import annotations

from collections.abc import Iterator

import minio_service
import pytest


@pytest.fixture(scope="session")
def minio_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = minio_service.binary()
    if program is None:
        pytest.skip("MinIO is not installed; `make services` builds it")
    with minio_service.running_server(program, tmp_path_factory.mktemp("minio")) as endpoint:
        yield endpoint
