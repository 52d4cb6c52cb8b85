"""A run whose pods a used-up quota does not allow."""

from __future__ import annotations

import pytest
from installed import Installed

pytestmark = pytest.mark.e2e


def progressing(installed: Installed, reason: str) -> str | None:
    """The message of a run that waits for this reason; None as long as it does not."""
    conditions = installed.status("quota").get("conditions", ())
    told = {one["reason"]: one for one in conditions if one["type"] == "Progressing"}
    return f"{told[reason]['status']}: {told[reason]['message']}" if reason in told else None


@pytest.mark.usefixtures("uids")
def test_a_run_whose_stage_is_not_created_says_why_and_goes_on_when_it_is(
    installed: Installed,
) -> None:
    def waits_for(reason: str) -> str:
        return installed.until(reason, lambda: progressing(installed, reason), 600)

    told = waits_for("PodNotCreated")
    assert told.startswith("True: ")
    assert "exceeded quota: no-gpus, requested: requests.nvidia.com/gpu=1" in told

    installed.kubectl("delete", "resourcequota", "no-gpus")
    assert "nvidia.com/gpu" in waits_for("Unschedulable")  # no node has one
    installed.kubectl("delete", "agentrlrun", "quota", "--timeout=300s")
