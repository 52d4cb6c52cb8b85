"""Where Ray's processes have their files."""

import tempfile
from pathlib import Path

import pytest

from agentrl_components.ray_workers.nodes.temporary_folder import temporary_folder


@pytest.fixture(autouse=True)
def _no_folder_of_rays(monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)


@pytest.mark.parametrize(
    ("length", "found"),
    [(33, "the usual folder"), (34, "/tmp")],  # 33, "/ray/" and 65 bytes of a socket are 103
)
def test_the_usual_folder_is_taken_if_the_longest_socket_fits_into_103_bytes(
    length, found, monkeypatch
):
    usual = Path("/" + "x" * (length - 1))
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    assert temporary_folder("ray") == (usual if found == "the usual folder" else Path("/tmp"))


def test_the_folder_that_the_user_gives_ray_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/" + "x" * 200)
    assert temporary_folder("ray") == Path("/" + "x" * 200)
