"""Start the servers that store data: MinIO, MLflow, and MariaDB for Kubeflow Pipelines."""

from __future__ import annotations

import sys

from cluster import processes
from cluster.command import expose, kubectl, run, works
from cluster.processes import Process
from cluster.settings import BIN, DATA, IP, KEYS, NAMESPACE

BUCKETS = ("mlpipeline", "agentrl")
MINIO = f"http://{IP}:9000"
MLFLOW = f"http://{IP}:5000"
DATABASE = DATA / "mariadb"


def start() -> None:
    """Start all three, which need only the bridge; `wait_ready` waits until they serve."""
    start_minio()
    start_mlflow()
    start_mariadb()


def start_minio() -> Process:
    for bucket in BUCKETS:
        (DATA / "minio" / bucket).mkdir(parents=True)
    return processes.start(
        "minio",
        [BIN / "minio", "server", DATA / "minio", "--address", f"{IP}:9000",
         "--console-address", f"{IP}:9001"],
        env={"MINIO_ROOT_USER": KEYS.access, "MINIO_ROOT_PASSWORD": KEYS.secret},
        ready=f"{MINIO}/minio/health/live",
    )  # fmt: skip


def start_mlflow() -> Process:
    folder = DATA / "mlflow"
    folder.mkdir()
    return processes.start(
        "mlflow",
        [sys.executable, "-m", "mlflow", "server", "--host", IP, "--port", 5000, "--workers", 1,
         "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
         "--serve-artifacts", "--artifacts-destination", folder / "artifacts",
         # pods call it by the names of its Service, which its DNS rebinding protection refuses
         "--allowed-hosts", "*"],
        env={
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven workers that no test uses
            "OMP_NUM_THREADS": 1,
        },
        ready=f"{MLFLOW}/health",
    )  # fmt: skip


def start_mariadb() -> Process:
    run(
        "mariadb-install-db", "--no-defaults", f"--datadir={DATABASE}", "--user=root",
        "--auth-root-authentication-method=normal", "--skip-test-db",
    )  # fmt: skip
    return processes.start("mariadb", [
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={DATABASE}",
        f"--socket={DATABASE}/s.sock", f"--bind-address={IP}", "--port=3306", "--sql-mode=",
        f"--pid-file={DATABASE}/pid",
    ])  # fmt: skip


def wait_ready() -> None:
    """Wait for the database, create the user and the database of KFP, and wait for MinIO."""
    client = ("mariadb", "-uroot", "-S", f"{DATABASE}/s.sock", "-e")
    log = processes.find("mariadb").log
    processes.wait_until("the database", lambda: works(*client, "select 1"), log=log)
    user = "create user kfp@'%' identified by 'kfp'; grant all on *.* to kfp@'%'"
    run(*client, f"create database mlpipeline; {user}")
    processes.wait_ready(processes.find("minio"))


def create_services() -> None:
    """Create the Services and Secrets, named as in the manifests of Kubeflow and in our chart."""
    for name in ("minio-service", "seaweedfs"):  # names in KFP up to 2.15, and from 2.16
        expose(NAMESPACE, name, ("TCP", 9000))
    expose(NAMESPACE, "mlflow", ("TCP", 5000))
    for secret in ("mlpipeline-minio-artifact", "agentrl-storage"):
        kubectl(
            "-n", NAMESPACE, "create", "secret", "generic", secret,
            f"--from-literal=accesskey={KEYS.access}", f"--from-literal=secretkey={KEYS.secret}",
        )  # fmt: skip
