"""Deleting a run with `storage.onDelete: delete` deletes its records."""

from __future__ import annotations

import pytest
from installed import Installed

from agentrl_components.storage import keys

pytestmark = pytest.mark.e2e


def test_deleted_run_takes_its_records_along_if_the_manifest_says_so(
    installed: Installed, uids: dict[str, str]
) -> None:
    store = installed.run_store("swept", uids["swept"])
    installed.until_iteration("swept", 1, 1200)
    assert store.exists(keys.RUN)
    installed.kubectl("delete", "arl", "swept", "--timeout=600s")
    installed.until("its records are gone", lambda: not list(store.list("")) or None, 600)
