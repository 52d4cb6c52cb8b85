"""Deep search and web navigation, each served by a pod of its own image."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from installed import Installed
from run_manifests import search_manifest, web_manifest

pytestmark = pytest.mark.e2e

STRICT = "agentrl-restricted"
"""A namespace that enforces the Pod Security Standard `restricted`."""


@pytest.fixture(scope="module")
def worlds(installed: Installed) -> dict[str, str]:
    """Start both runs. Returns their uids by name."""
    manifests = [search_manifest("search")]
    if installed.local:  # only there the image with Chromium is loaded
        manifests.append(web_manifest("web"))
    return {one["metadata"]["name"]: installed.apply(one) for one in manifests}


@pytest.fixture(params=["search", "web"])
def run(request: pytest.FixtureRequest, worlds: dict[str, str]) -> str:
    """Name of a run. Skips if it was not started."""
    name: str = request.param
    if name not in worlds:
        pytest.skip("the image with Chromium is loaded into the local cluster only")
    return name


def server_pod(installed: Installed, run: str) -> dict[str, Any]:
    """The ready pod of the environment of a run, which has the name of the run."""

    def ready() -> dict[str, Any] | None:
        for pod in installed.pods(**{"agentrl.dev/environment": run}):
            conditions = pod["status"].get("conditions", ())
            if ("Ready", "True") in {(one["type"], one["status"]) for one in conditions}:
                return pod
        return None

    return installed.until(f"the server of {run} is ready", ready, 1200)


def test_server_runs_as_a_numeric_user_with_a_read_only_root(
    installed: Installed, run: str
) -> None:
    pod = server_pod(installed, run)
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    name = pod["metadata"]["name"]
    assert installed.kubectl("exec", name, "--", "id", "-u").strip() == "65532"
    refused = installed.refusal("exec", name, "--", "touch", "/opt/agentrl/x")
    assert "Read-only file system" in refused


def test_chromium_has_no_sandbox_under_the_runtimes_seccomp_profile(
    installed: Installed, worlds: dict[str, str]
) -> None:
    """docs/environments/web.md says so, and why."""
    if "web" not in worlds:
        pytest.skip("the image with Chromium is loaded into the local cluster only")
    log = installed.kubectl("logs", server_pod(installed, "web")["metadata"]["name"])
    assert "runs without its sandbox: user namespaces are not allowed here" in log
    assert "Operation not permitted" in log


def test_server_is_admitted_where_pod_security_is_restricted(
    installed: Installed, run: str
) -> None:
    spec = server_pod(installed, run)["spec"]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    namespace |= {"metadata": {"name": STRICT, "labels": labels}}
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": run, "namespace": STRICT}}
    spec = {key: value for key, value in spec.items() if key not in ("nodeName", "serviceAccount")}
    installed.until(
        "the namespace has its service account",
        lambda: (
            "default" in installed.kubectl("get", "serviceaccounts", "-n", STRICT, check=False)
            or None
        ),
        120,
    )
    create = ["create", "--dry-run=server", "-n", STRICT, "-f", "-"]
    created = installed.kubectl(*create, stdin=json.dumps(pod | {"spec": spec}))
    assert f"pod/{run} created" in created
    refused = json.loads(json.dumps(spec))
    del refused["containers"][0]["securityContext"]
    answer = installed.refusal(*create, stdin=json.dumps(pod | {"spec": refused}))
    assert "violates PodSecurity" in answer


def test_scaled_environment_has_a_budget(installed: Installed, worlds: dict[str, str]) -> None:
    server_pod(installed, "search")
    budgets = installed.get("poddisruptionbudgets", "-l", "agentrl.dev/environment=search")
    assert [one["spec"]["maxUnavailable"] for one in budgets["items"]] == [1]


@pytest.mark.usefixtures("paused")  # suspended while it works; these runs take minutes
def test_run_succeeds(installed: Installed, worlds: dict[str, str], run: str) -> None:
    installed.until_state(run, "Succeeded", 1200)
    assert len(installed.records(run, worlds[run])) == (2 if run == "search" else 1)
