"""Names that the operator and the pipeline agree on: labels, resources, variables and ports.

Imports nothing, so that the operator can use them without loading YAML or the phase graph.
"""

from __future__ import annotations

RUN_LABEL = "agentrl.dev/run"
"""Label of every object that belongs to a run. Value: the name of the AgentRLRun."""
STAGE_LABEL = "agentrl.dev/stage"
"""Label of a stage's pod. Value: the name of the stage."""
KFP_RUN_LABEL = "pipeline/runid"
"""Label that Kubeflow Pipelines sets on the Workflow and on every pod of a KFP run."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label that submits a pod to a LocalQueue of Kueue."""
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Label that names a WorkloadPriorityClass, on a pod or on an AgentRLRun."""
RAY_LABEL = "agentrl.dev/ray"
"""Label of every pod of a run's Ray cluster. Value: `head`, `driver`, or its worker group."""

GPU_RESOURCE = "nvidia.com/gpu"
"""The extended resource that `spec.compute.gpus` counts."""
DISK_RESOURCE = "ephemeral-storage"
"""The resource that the temporary files of a pod without a volume take."""

ENVIRONMENT_PORT = 8080
"""Port of an environment server's container and of its Service."""
TOKEN_SECRET = "token"
"""The `part` of `resolve.child_name` for the Secret that holds a run's environment token."""
TOKEN_KEY = "token"
"""Key of the token in that Secret."""
TOKEN_VARIABLE = "AGENTRL_ENV_TOKEN"
"""Environment variable that holds the token, in stages and in environment servers."""

RAY_CLUSTER = "ray"
"""The `part` of `resolve.child_name` for a run's RayCluster and the Secret with its token."""
RAY_TOKEN_KEY = "auth_token"
"""Key of the token in that Secret, which KubeRay creates."""
RAY_PORT = 6379
"""Port of Ray's control service (GCS) on the head."""
