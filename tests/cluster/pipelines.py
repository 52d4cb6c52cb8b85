"""Kubeflow Pipelines: its API server, agent and metadata beside the cluster, over Argo."""

from __future__ import annotations

from pathlib import Path

import archive
from backend import chosen
from command import expose, kubectl
from place import BUILD, DATA, HERE, IP, KEYS, KUBECONFIG, NAMESPACE, configured
from processes import Process, start, wait_ready

URL = f"http://{IP}:8888"
BACKEND = chosen()
MANIFESTS = BACKEND.manifests
BIN = BACKEND.programs
TOKEN = Path("/var/run/secrets/kubeflow/tokens/persistenceagent-sa-token")
"""The agent knows no other place for it."""


def resources() -> None:
    """The kinds, roles and settings that Argo and KFP expect to find in the cluster."""
    kinds = [
        *sorted((MANIFESTS / "argo-crds").glob("argoproj.io_*.yaml")),
        *sorted((MANIFESTS / "kfp/crds").glob("pipelines.*.yaml")),
        *(MANIFESTS / "kfp/pipeline/cluster-scoped" / f"{kind}-crd.yaml"
          for kind in ("scheduled-workflow", "viewer")),
    ]  # fmt: skip
    # `create`: what `apply` would note beside Argo's kinds is too large for an annotation
    kubectl("create", *(word for path in kinds for word in ("-f", path)))
    roles = [MANIFESTS / f"kfp/pipeline/pipeline-runner-{part}.yaml"
             for part in ("sa", "role", "rolebinding")]  # fmt: skip
    kubectl("-n", NAMESPACE, "apply", *(word for path in roles for word in ("-f", path)))
    kubectl("-n", NAMESPACE, "apply", "-f", configured("pipelines.yaml"), "-f", BACKEND.argo)
    if BACKEND.labels:
        kubectl("label", "namespace", NAMESPACE, *BACKEND.labels)


def images() -> None:
    for name, path in (
        ("kfp-driver", "bin/driver"), ("kfp-launcher", "bin/launcher-v2"),
        ("argoexec", "bin/argoexec"),
    ):  # fmt: skip
        archive.load(name, {path: BIN / name}, user=BACKEND.user)


def begin() -> None:
    start("mlmd", [
        BUILD / "mlmd/bin/python", HERE / "mlmd.py", DATA / "mlmd.sqlite", f"{IP}:8080",
    ])  # fmt: skip
    expose(NAMESPACE, "metadata-grpc-service", ("TCP", 8080))
    expose(NAMESPACE, "ml-pipeline", ("TCP", 8888), ("TCP", 8887))
    # its metrics listen on port 9090: nothing else may
    start(
        "argo",
        [BIN / "workflow-controller", "--kubeconfig", KUBECONFIG, "--namespaced",
         "--namespace", NAMESPACE, "--managed-namespace", NAMESPACE, "--loglevel", "warn",
         "--executor-image", archive.image("argoexec"),
         "--executor-image-pull-policy", "IfNotPresent"],
        # Argo's own default of 10 s would add 10 s to every pod of a small pipeline
        env={"ARGO_POD_NAME": "controller", "LEADER_ELECTION_DISABLE": "true",
             "DEFAULT_REQUEUE_TIME": "500ms"},
    )  # fmt: skip
    wait_ready(api_server())
    agent()


def api_server() -> Process:
    return start(
        "kfp-apiserver",
        [BIN / "kfp-apiserver", "--config", BACKEND.config,
         "--sampleconfig", BUILD / "kfp-config/sample_config.json"],
        env={
            "POD_NAMESPACE": NAMESPACE, "KUBECONFIG": KUBECONFIG,
            "DBCONFIG_MYSQLCONFIG_USER": "kfp", "DBCONFIG_MYSQLCONFIG_PASSWORD": "kfp",
            "DBCONFIG_MYSQLCONFIG_HOST": IP, "DBCONFIG_MYSQLCONFIG_PORT": 3306,
            "OBJECTSTORECONFIG_HOST": IP, "OBJECTSTORECONFIG_PORT": 9000,
            "OBJECTSTORECONFIG_SECURE": "false", "OBJECTSTORECONFIG_BUCKETNAME": "mlpipeline",
            "OBJECTSTORECONFIG_ACCESSKEY": KEYS.access,
            "OBJECTSTORECONFIG_SECRETACCESSKEY": KEYS.secret,
            "V2_DRIVER_IMAGE": archive.image("kfp-driver"), "V2_DRIVER_COMMAND": "/bin/driver",
            "V2_LAUNCHER_IMAGE": archive.image("kfp-launcher"),
            "V2_LAUNCHER_COMMAND": "/bin/launcher-v2",
            "ML_PIPELINE_SERVICE_HOST": IP,
            # nobody listens there, but without them it ends after its start
            "ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_HOST": IP,
            "ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_PORT": 8898,
            **BACKEND.environment,
        },
        ready=f"{URL}/apis/v2beta1/healthz",
    )  # fmt: skip


def agent() -> Process:
    TOKEN.parent.mkdir(parents=True, exist_ok=True)
    # it becomes a gRPC header: with a newline at its end, no run would ever leave PENDING
    TOKEN.write_text("none")
    return start(
        "kfp-persistence-agent",
        [BIN / "kfp-persistence-agent", "--kubeconfig", KUBECONFIG, "--namespace", NAMESPACE,
         "--mlPipelineAPIServerName", IP, "--logtostderr=true"],
        env={"NAMESPACE": NAMESPACE, "KUBECONFIG": KUBECONFIG},
    )  # fmt: skip
