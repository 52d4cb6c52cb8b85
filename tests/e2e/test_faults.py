"""Everything dies at some moment, and the run is the one that was never disturbed."""

from __future__ import annotations

import random
import time

import pytest
from installed import Installed, manifest

pytestmark = pytest.mark.e2e

STAGE = "agentrl.dev/run=storm,agentrl.dev/stage="
VICTIMS = {
    "operator": "app.kubernetes.io/component=operator",
    "rollout": f"{STAGE}rollout",
    "update": f"{STAGE}update",
    "environment": "agentrl.dev/run=storm,agentrl.dev/environment",
}
"""Pods, by their labels; what is not named here is a service beside AgentRL."""


def test_whatever_dies_the_metrics_are_those_of_the_calm_run(
    installed: Installed, calm: tuple[str, str]
) -> None:
    moments = random.Random(3)
    uid = installed.apply(manifest("storm", compute={"placement": "disaggregated"}))
    installed.until_iteration("storm", 1, 1200)
    for fault in (
        "operator", "rollout", "minio", "update", "environment", "kfp-apiserver", "mlflow",
    ):  # fmt: skip
        struck = installed.until(f"{fault} dies", lambda fault=fault: strike(installed, fault), 600)
        print(f"{fault}: {struck}")
        time.sleep(moments.uniform(2.0, 8.0))
    installed.until_state("storm", "Succeeded", 2400)
    assert installed.records("storm", uid) == installed.records(*calm)


def strike(installed: Installed, fault: str) -> str | None:
    """Kill something, and what came of it. None: it is not at work now."""
    if fault not in VICTIMS:
        return installed.lose(fault)
    running = "--field-selector=status.phase=Running"
    chosen = ["pods", "-l", VICTIMS[fault], running]
    told = installed.kubectl("delete", *chosen, "--grace-period=0", "--force")
    return told if "deleted" in told else None
