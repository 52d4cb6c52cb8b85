"""Every component dies once during a run, and the run is the same as the undisturbed one."""

from __future__ import annotations

import random
import time

import pytest
from installed import Installed

pytestmark = pytest.mark.e2e

STAGE = "agentrl.dev/run=storm,agentrl.dev/stage="
PODS = {
    "operator": "app.kubernetes.io/component=operator",
    "rollout": f"{STAGE}rollout",
    "update": f"{STAGE}update",
    "environment": "agentrl.dev/run=storm,agentrl.dev/environment",
}
"""Label selectors; faults that are not listed here are services beside AgentRL."""


def test_records_equal_those_of_the_undisturbed_run_whatever_dies(
    installed: Installed, calm: tuple[str, str], storm: str
) -> None:
    delays = random.Random(3)
    installed.until_iteration("storm", 1, 1200)
    installed.until_state("pause", "Succeeded", 2400)  # the faults would disturb that run, too
    for fault in (
        "operator", "rollout", "minio", "update", "environment", "kfp-apiserver", "mlflow",
    ):  # fmt: skip
        done = installed.until(f"{fault} dies", lambda fault=fault: kill(installed, fault), 600)
        print(f"{fault}: {done}")
        time.sleep(delays.uniform(2.0, 8.0))
    installed.until_state("storm", "Succeeded", 2400)
    assert installed.records("storm", storm) == installed.records(*calm)


def kill(installed: Installed, fault: str) -> str | None:
    """Kill a component. Returns what was done, or None if the component is not running now."""
    if fault not in PODS:
        return installed.stop_service(fault)
    running = "--field-selector=status.phase=Running"
    selected = ["pods", "-l", PODS[fault], running]
    done = installed.kubectl("delete", *selected, "--grace-period=0", "--force")
    return done if "deleted" in done else None
