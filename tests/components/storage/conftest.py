"""A real MinIO, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import minio_service
import pytest


@pytest.fixture(scope="module")
def minio_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = minio_service.binary()
    if program is None:
        pytest.skip("no MinIO server here; `make services` builds one")
    with minio_service.serving(program, tmp_path_factory.mktemp("minio")) as endpoint:
        yield endpoint
