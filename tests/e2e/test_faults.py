"""Everything dies at some moment, and the run is the one that was never disturbed."""

from __future__ import annotations

import random
import time

import pytest
from installed import Installed, manifest

pytestmark = pytest.mark.e2e


def test_whatever_dies_the_metrics_are_those_of_the_calm_run(
    installed: Installed, calm: tuple[str, str]
) -> None:
    moments = random.Random(3)
    uid = installed.apply(manifest("storm", compute={"placement": "disaggregated"}))
    faults = ["operator", "rollout", "minio", "update", "environment", "kfp-apiserver", "mlflow"]
    installed.until_iteration("storm", 1, 300)
    for fault in faults:
        if installed.status("storm").get("phase") == "Succeeded":
            break
        struck = strike(installed, fault)
        print(f"{fault}: {struck}")
        time.sleep(moments.uniform(2.0, 8.0))
    installed.until_phase("storm", "Succeeded", 900)
    assert installed.records("storm", uid) == installed.records(*calm)


def strike(installed: Installed, fault: str) -> str:
    """Kill something, and what came of it."""
    if fault == "operator":
        chosen = ["pods", "-l", "app.kubernetes.io/component=operator"]
        return installed.kubectl("delete", *chosen, "--grace-period=0", "--force")
    if fault in ("rollout", "update"):
        chosen = ["pods", "-l", f"agentrl.dev/run=storm,agentrl.dev/stage={fault}"]
        running = ["--field-selector=status.phase=Running", "--grace-period=0", "--force"]
        return installed.kubectl("delete", *chosen, *running)
    if fault == "environment":
        chosen = ["pods", "-l", "agentrl.dev/run=storm,agentrl.dev/environment"]
        return installed.kubectl("delete", *chosen, "--grace-period=0", "--force")
    return installed.lose(fault)
