"""The manifest file of the commands under test."""

from pathlib import Path

import pytest
from kubernetes_stub import MANIFEST


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "run.yaml"
    path.write_text(MANIFEST)
    return str(path)
