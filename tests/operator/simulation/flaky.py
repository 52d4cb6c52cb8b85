"""Clients of which calls fail."""

from agentrl_operator.errors import KfpError, KubernetesError, MlflowError, RunStoreError

ERRORS = {
    "cluster": KubernetesError("Kubernetes: 503 Service Unavailable", status=503),
    "kueue": KubernetesError("Kubernetes: 503 Service Unavailable", status=503),
    "kuberay": KubernetesError("Kubernetes: 503 Service Unavailable", status=503),
    "agent_sandbox": KubernetesError("Kubernetes: 503 Service Unavailable", status=503),
    "fleet": KubernetesError("Kubernetes: 503 Service Unavailable", status=503),
    "pipelines": KfpError("KFP: 503 Service Unavailable", status=503),
    "stores": RunStoreError("s3://mlpipeline: 503 Service Unavailable", status=503),
    "tracking": MlflowError("MLflow: 503 Service Unavailable", status=503),
}
"""The error of each client when one of its calls fails."""
WRITES = {
    "cluster": (
        "add_finalizer",
        "remove_finalizer",
        "patch_status",
        "create",
        "apply",
        "delete_deployment",
        "delete_run",
        "delete_workflows",
    ),
    "kueue": ("patch_workload_status", "patch_workload_spec", "delete_workload"),
    "kuberay": ("delete_ray_cluster",),
    "agent_sandbox": ("delete_sandbox", "delete_sandboxes"),
    "pipelines": ("start_run", "terminate_run", "delete_experiment"),
    "stores": ("write_mlflow_run", "delete_run_data"),
    "tracking": ("ensure_run", "finish_run"),
}
"""The calls of each client that change something."""

READS = {
    "cluster": ("list_pods", "list_workflows"),
    "kueue": ("get_workload", "get_resource_flavor", "get_priority_class"),
    "kuberay": ("get_ray_cluster", "is_installed"),
    "agent_sandbox": ("list_sandboxes",),
    "fleet": ("serves_metric", "ready_pods"),
    "pipelines": ("get_run", "list_runs"),
    "stores": ("read_state", "read_decision", "read_mlflow_run"),
}
"""The calls of each client that a run is observed with."""
REFUSED = KubernetesError("Kubernetes: 403: forbidden", status=403, retryable=False)
"""The error of a call that Kubernetes refuses until somebody changes something."""


class Flaky:
    """A client whose calls pass through, except those that are named with an error: in `failures`
    for the next call only, in `broken` for all calls."""

    def __init__(self, client, name, failures, broken):
        self._client = client
        self._name = name
        self._failures = failures
        self._broken = broken

    @property
    def kueue(self):
        return Flaky(self._client.kueue, "kueue", self._failures, self._broken)

    @property
    def fleet(self):
        return Flaky(self._client.fleet, "fleet", self._failures, self._broken)

    @property
    def kuberay(self):
        return Flaky(self._client.kuberay, "kuberay", self._failures, self._broken)

    @property
    def agent_sandbox(self):
        return Flaky(self._client.agent_sandbox, "agent_sandbox", self._failures, self._broken)

    def __getattr__(self, method):
        call = (self._name, method)
        error = self._failures.pop(call, self._broken.get(call))
        if error is None:
            return getattr(self._client, method)

        async def fail(*_, **__):
            raise error

        return fail
