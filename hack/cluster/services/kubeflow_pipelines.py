"""Start Kubeflow Pipelines: API server, persistence agent, ML Metadata and Argo's controller."""

from __future__ import annotations

from pathlib import Path

from cluster import processes
from cluster.command import expose, kubectl
from cluster.images import oci_archive
from cluster.processes import Process
from cluster.services.kfp_release import select
from cluster.settings import BUILD, DATA, HERE, IP, KEYS, KUBECONFIG, NAMESPACE, render_config

URL = f"http://{IP}:8888"
RELEASE = select()
MANIFESTS = RELEASE.manifests
BIN = RELEASE.programs
TOKEN = Path("/var/run/secrets/kubeflow/tokens/persistenceagent-sa-token")
"""The path is fixed in the persistence agent."""


def create_resources() -> None:
    """Create the CRDs, roles and ConfigMaps that Argo and KFP expect in the cluster."""
    crds = [
        *sorted((MANIFESTS / "argo-crds").glob("argoproj.io_*.yaml")),
        *sorted((MANIFESTS / "kfp/crds").glob("pipelines.*.yaml")),
        *(MANIFESTS / "kfp/pipeline/cluster-scoped" / f"{kind}-crd.yaml"
          for kind in ("scheduled-workflow", "viewer")),
    ]  # fmt: skip
    # `create`, because the annotation of `apply` would be too large for the CRDs of Argo
    kubectl("create", *(word for path in crds for word in ("-f", path)))
    roles = [MANIFESTS / f"kfp/pipeline/pipeline-runner-{part}.yaml"
             for part in ("sa", "role", "rolebinding")]  # fmt: skip
    kubectl("-n", NAMESPACE, "apply", *(word for path in roles for word in ("-f", path)))
    kubectl("-n", NAMESPACE, "apply", "-f", render_config("pipelines.yaml"), "-f", RELEASE.argo)
    if RELEASE.labels:
        kubectl("label", "namespace", NAMESPACE, *RELEASE.labels)


def load_images() -> None:
    for name, path in (
        ("kfp-driver", "bin/driver"), ("kfp-launcher", "bin/launcher-v2"),
        ("argoexec", "bin/argoexec"),
    ):  # fmt: skip
        oci_archive.load(name, {path: BIN / name}, user=RELEASE.user)


def start() -> None:
    processes.start("mlmd", [
        BUILD / "mlmd/bin/python", HERE / "services/mlmd.py", DATA / "mlmd.sqlite", f"{IP}:8080",
    ])  # fmt: skip
    expose(NAMESPACE, "metadata-grpc-service", ("TCP", 8080))
    expose(NAMESPACE, "ml-pipeline", ("TCP", 8888), ("TCP", 8887))
    # its metrics occupy port 9090
    processes.start(
        "argo",
        [BIN / "workflow-controller", "--kubeconfig", KUBECONFIG, "--namespaced",
         "--namespace", NAMESPACE, "--managed-namespace", NAMESPACE, "--loglevel", "warn",
         "--executor-image", oci_archive.image("argoexec"),
         "--executor-image-pull-policy", "IfNotPresent"],
        # the default of 10 s would add up to 10 s to every pod of a small pipeline
        env={"ARGO_POD_NAME": "controller", "LEADER_ELECTION_DISABLE": "true",
             "DEFAULT_REQUEUE_TIME": "200ms"},
    )  # fmt: skip
    processes.wait_ready(start_api_server())
    start_persistence_agent()


def start_api_server() -> Process:
    return processes.start(
        "kfp-apiserver",
        [BIN / "kfp-apiserver", "--config", RELEASE.config,
         "--sampleconfig", BUILD / "kfp-config/sample_config.json"],
        env={
            "POD_NAMESPACE": NAMESPACE, "KUBECONFIG": KUBECONFIG,
            "DBCONFIG_MYSQLCONFIG_USER": "kfp", "DBCONFIG_MYSQLCONFIG_PASSWORD": "kfp",
            "DBCONFIG_MYSQLCONFIG_HOST": IP, "DBCONFIG_MYSQLCONFIG_PORT": 3306,
            "OBJECTSTORECONFIG_HOST": IP, "OBJECTSTORECONFIG_PORT": 9000,
            "OBJECTSTORECONFIG_SECURE": "false", "OBJECTSTORECONFIG_BUCKETNAME": "mlpipeline",
            "OBJECTSTORECONFIG_ACCESSKEY": KEYS.access,
            "OBJECTSTORECONFIG_SECRETACCESSKEY": KEYS.secret,
            "V2_DRIVER_IMAGE": oci_archive.image("kfp-driver"), "V2_DRIVER_COMMAND": "/bin/driver",
            "V2_LAUNCHER_IMAGE": oci_archive.image("kfp-launcher"),
            "V2_LAUNCHER_COMMAND": "/bin/launcher-v2",
            "ML_PIPELINE_SERVICE_HOST": IP,
            # nothing listens there, but without these variables the server exits
            "ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_HOST": IP,
            "ML_PIPELINE_VISUALIZATIONSERVER_SERVICE_PORT": 8898,
            **RELEASE.environment,
        },
        ready=f"{URL}/apis/v2beta1/healthz",
    )  # fmt: skip


def start_persistence_agent() -> Process:
    TOKEN.parent.mkdir(parents=True, exist_ok=True)
    # sent as a gRPC header: with a newline at its end, runs would stay PENDING
    TOKEN.write_text("none")
    return processes.start(
        "kfp-persistence-agent",
        [BIN / "kfp-persistence-agent", "--kubeconfig", KUBECONFIG, "--namespace", NAMESPACE,
         "--mlPipelineAPIServerName", IP, "--logtostderr=true"],
        env={"NAMESPACE": NAMESPACE, "KUBECONFIG": KUBECONFIG},
    )  # fmt: skip
