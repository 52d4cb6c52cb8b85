"""Thirty runs at once; on two cores the pods of most wait until others have ended. `make load`."""

from __future__ import annotations

import pytest
from installed import Installed
from run_manifests import tiny_manifest

pytestmark = pytest.mark.load

RUNS = 30


def test_many_runs_at_once_all_succeed_and_are_the_same_run(installed: Installed) -> None:
    names = [f"load-{number:02d}" for number in range(RUNS)]
    uids = {name: installed.apply(tiny_manifest(name)) for name in names}

    def states() -> dict[str, str]:
        runs = installed.get("agentrlruns")["items"]
        return {one["metadata"]["name"]: one.get("status", {}).get("state", "") for one in runs}

    def have_ended() -> bool:
        current = states()
        assert "Failed" not in current.values(), installed.report()
        return all(current[name] == "Succeeded" for name in names)

    installed.until(f"{RUNS} runs have succeeded", have_ended, 90 * RUNS, poll_s=10)
    first, *others = (installed.records(name, uids[name]) for name in names)
    assert len(first) == 3
    assert all(other == first for other in others)
    for name in names:
        assert [run["state"] for run in installed.kfp_runs(uids[name])] == ["SUCCEEDED"]
