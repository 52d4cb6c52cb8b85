"""A run whose environment servers are Sandboxes, on the real controller of agent-sandbox: a pod is
lost, the run is suspended and resumed, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installed import CACHE, Installed
from run_manifests import tiny_manifest

pytestmark = [pytest.mark.e2e, pytest.mark.load]

SERVED = {"name": "corridor", "builtin": "corridor", "backend": "sandbox", "replicas": 2}


@pytest.fixture(scope="module")
def boxed(installed: Installed) -> Iterator[str]:
    """The name of a run with two Sandboxes; deleted at the end."""
    if not installed.local or not (CACHE / "cluster/bin/agent-sandbox").exists():
        pytest.skip("no agent-sandbox: `python hack/cluster build agent-sandbox` builds it")
    installed.local_cluster("sandboxes")
    phases = [{"maxTurns": 4, "iterations": 30}]
    installed.apply(
        tiny_manifest("boxed", environments=[SERVED | {"cpu": "50m"}], horizon={"phases": phases})
    )
    yield "boxed"
    installed.kubectl("delete", "agentrlrun", "boxed", "--timeout=300s")
    installed.until("its Sandboxes are gone", lambda: not sandboxes(installed) or None, 60)
    installed.until("its servers are gone", lambda: not servers(installed) or None, 60)


def sandboxes(installed: Installed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = installed.get("sandboxes")["items"]
    return found


def servers(installed: Installed) -> list[dict[str, Any]]:
    labels = {"agentrl.dev/run": "boxed", "agentrl.dev/environment": "corridor"}
    return list(installed.pods(**labels))


def uids(installed: Installed) -> set[str]:
    return {pod["metadata"]["uid"] for pod in servers(installed)}


def ready(installed: Installed) -> bool:
    conditions = installed.status("boxed").get("conditions", ())
    return ("EnvironmentsReady", "True") in {(one["type"], one["status"]) for one in conditions}


def test_a_lost_pod_is_replaced_and_a_suspended_run_goes_on_with_new_sandboxes(
    installed: Installed, boxed: str
) -> None:
    installed.until("both Sandboxes are ready", lambda: ready(installed) or None, 300)
    pods = servers(installed)
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods} == {"Sandbox"}
    assert all(
        pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] for pod in pods
    )
    installed.until_iteration(boxed, 2, 600)

    lost = pods[0]["metadata"]
    installed.kubectl("delete", "pod", lost["name"], "--grace-period=0", "--force")
    installed.until(
        "agent-sandbox made another pod",
        lambda: (lost["uid"] not in (now := uids(installed)) and len(now) == 2) or None,
        120,
    )

    installed.suspend(boxed, True)
    installed.until_state(boxed, "Suspended", 300)
    installed.until("no Sandbox is left", lambda: not sandboxes(installed) or None, 60)
    installed.suspend(boxed, False)
    installed.until("both Sandboxes are back", lambda: len(sandboxes(installed)) == 2 or None, 120)
    installed.until_state(boxed, "Succeeded", 900)
    installed.until("no Sandbox is left", lambda: not sandboxes(installed) or None, 60)
