"""A suspended run continues where it stopped."""

from __future__ import annotations

import pytest
from installed import Installed

pytestmark = pytest.mark.e2e


def test_suspended_run_continues_and_is_the_same(
    installed: Installed, calm: tuple[str, str], paused: tuple[str, int]
) -> None:
    """Neither the pause nor the placement, which is colocated here, changes any record."""
    uid, before = paused
    installed.until_state("pause", "Succeeded", 2400)
    assert 4 <= before < 16
    assert installed.status("pause")["iteration"] == 16
    assert installed.records("pause", uid) == installed.records(*calm)
