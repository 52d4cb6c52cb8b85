"""Deleting a run that is at work keeps its records."""

from __future__ import annotations

import pytest
from installed import Installed

from agentrl_components.storage import checkpoint, keys

pytestmark = pytest.mark.e2e


def test_deleted_run_leaves_its_records_and_nothing_else(
    installed: Installed, uids: dict[str, str], working: str
) -> None:
    name, uid = working, uids[working]
    installed.kubectl("delete", "arl", name, "--timeout=600s")
    (run,) = installed.kfp_runs(uid)
    assert run["state"] in ("FAILED", "CANCELED", "CANCELING")

    def is_gone() -> bool | None:
        left = [
            item["metadata"]["name"]
            for kind in ("pods", "deployments", "services", "secrets")
            for item in installed.get(kind)["items"]
            if uid[:8] in item["metadata"]["name"]
            or (
                item["metadata"].get("labels", {}).get("agentrl.dev/run") == name
                and item.get("status", {}).get("phase") in ("Pending", "Running")
            )
        ]
        return None if left else True

    installed.until("all objects of a deleted run are gone", is_gone, 600)
    store = installed.run_store(name, uid)
    assert checkpoint.complete(store) == [0]
    assert store.exists(keys.RUN)
