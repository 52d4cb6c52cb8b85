"""The folder in which a checkpoint is written before it is stored."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agentrl_components.errors import StoreError
from agentrl_components.run.spool import spool_in


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The operating system lets this process write files of that many bytes only."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_that_does_not_fit_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    named = rf"^{tmp_path}: .*File too large.*; .* set TMPDIR"
    with pytest.raises(StoreError, match=named), spool_in(tmp_path) as spool, files_of_at_most(999):
        (spool / "trainer").write_bytes(bytes(1000))
    with pytest.raises(StoreError, match=named), spool_in(tmp_path) as spool, files_of_at_most(999):
        save_file({"weight": torch.zeros(1000)}, spool / "weights")
    assert list(tmp_path.iterdir()) == []


def test_a_full_device_is_such_an_error_and_a_missing_file_is_not(tmp_path: Path) -> None:
    full = Path("/dev/full")  # writing to it fails as on a full device
    with pytest.raises(StoreError, match="No space left on device"), spool_in(tmp_path):
        full.write_bytes(b"1")
    with pytest.raises(FileNotFoundError), spool_in(tmp_path) as spool:
        (spool / "missing").read_bytes()


def test_a_file_of_a_checkpoint_that_is_damaged_is_no_full_folder(tmp_path: Path) -> None:
    garbage = tmp_path / "weights"
    garbage.write_bytes(b"no header of safetensors")
    with pytest.raises(SafetensorError), spool_in(tmp_path):
        load_file(garbage)
