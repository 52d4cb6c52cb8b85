"""Suspend, resume, delete: what a person does to a run half way."""

from __future__ import annotations

import pytest
from installed import Installed, manifest

from agentrl_components.storage import checkpoint, keys

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def doomed(installed: Installed) -> dict[str, str]:
    """Two runs that are to be deleted, by name: their uids. The second takes its records along."""
    changes: dict[str, dict[str, object]] = {
        "gone": {},
        "swept": {"storage": {"onDelete": "delete"}},
    }
    return {name: installed.apply(manifest(name, **change)) for name, change in changes.items()}


def test_a_suspended_run_goes_on_where_it_was_and_is_the_same(
    installed: Installed, calm: tuple[str, str], paused: tuple[str, int]
) -> None:
    """Colocated, too: neither the pause nor the placement shows in any number."""
    uid, before = paused
    assert 4 <= before < 16
    assert installed.status("pause")["iteration"] == 16
    assert installed.records("pause", uid) == installed.records(*calm)


def test_a_deleted_run_leaves_what_retention_keeps_and_nothing_else(
    installed: Installed, doomed: dict[str, str]
) -> None:
    uid = doomed["gone"]
    installed.until_iteration("gone", 2, 1200)
    installed.kubectl("delete", "arl", "gone", "--timeout=600s")
    (run,) = installed.kfp_runs(uid)
    assert run["state"] in ("FAILED", "CANCELED", "CANCELING")

    def swept() -> bool | None:
        left = [
            thing["metadata"]["name"]
            for kind in ("pods", "deployments", "services", "secrets")
            for thing in installed.get(kind)["items"]
            if uid[:8] in thing["metadata"]["name"]
            or (
                thing["metadata"].get("labels", {}).get("agentrl.dev/run") == "gone"
                and thing.get("status", {}).get("phase") in ("Pending", "Running")
            )
        ]
        return None if left else True

    installed.until("everything of a deleted run is gone", swept, 600)
    store = installed.place("gone", uid)
    assert checkpoint.complete(store) == [0]
    assert store.exists(keys.RUN)


def test_a_deleted_run_takes_its_records_with_it_where_it_is_told_to(
    installed: Installed, doomed: dict[str, str]
) -> None:
    store = installed.place("swept", doomed["swept"])
    installed.until("the run has begun", lambda: store.exists(keys.RUN) or None, 1200)
    installed.kubectl("delete", "arl", "swept", "--timeout=600s")
    installed.until("its records are gone", lambda: not list(store.list("")) or None, 600)
