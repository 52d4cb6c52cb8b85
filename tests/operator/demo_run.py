"""The run `demo`: its manifest, its status and its plan."""

from datetime import UTC, datetime

from agentrl_operator.api import resource
from agentrl_operator.api.status import Status
from agentrl_operator.planning.observation import Observation
from agentrl_operator.planning.reconcile import reconcile
from agentrl_pipelines.platform.config import Kfp, Mlflow, Platform

UID = "6a1b2c3d-0000-4000-8000-000000000001"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PLATFORM = Platform(
    kfp=Kfp(ui_url="http://kfp.test"), tracking=Mlflow(uri="http://mlflow.test"), poll_seconds=5
)
SPEC = {
    "environments": [{"name": "babyai", "url": "http://babyai.test"}],
    "horizon": {
        "phases": [{"maxTurns": 3, "iterations": 2}, {"maxTurns": 6, "iterations": 4}],
    },
    "backoffLimit": 1,
}
SERVED = SPEC | {"environments": [{"name": "babyai", "builtin": "babyai"}]}


def run(spec=SPEC, **metadata):
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {
            "name": "demo",
            "namespace": "kubeflow",
            "uid": UID,
            "generation": 2,
            "finalizers": ["agentrl.dev/run"],
        }
        | metadata,
        "spec": spec,
    }
    return resource.read(body, PLATFORM)


def plan(spec=SPEC, status=None, observed=None, now=NOW, **metadata):
    return reconcile(
        run(spec, **metadata), status or Status(), observed or Observation(), PLATFORM, now
    )


def started(**fields):
    return Status(state="Running", start_time=NOW, active_time=NOW, **{"mlflow_run": "m1"} | fields)
