"""What holds the data: MinIO, MLflow, and MariaDB for Kubeflow Pipelines."""

from __future__ import annotations

import sys

from command import expose, kubectl, run, works
from place import BIN, DATA, IP, KEYS, NAMESPACE
from processes import Process, named, start, until, wait_ready

BUCKETS = ("mlpipeline", "agentrl")
MINIO = f"http://{IP}:9000"
MLFLOW = f"http://{IP}:5000"
DATABASE = DATA / "mariadb"


def begin() -> None:
    """Start them; they need the bridge and nothing else. `wait` says when they serve."""
    object_store()
    tracking()
    database()


def object_store() -> Process:
    for bucket in BUCKETS:
        (DATA / "minio" / bucket).mkdir(parents=True)
    return start(
        "minio",
        [BIN / "minio", "server", DATA / "minio", "--address", f"{IP}:9000",
         "--console-address", f"{IP}:9001"],
        env={"MINIO_ROOT_USER": KEYS.access, "MINIO_ROOT_PASSWORD": KEYS.secret},
        ready=f"{MINIO}/minio/health/live",
    )  # fmt: skip


def tracking() -> Process:
    folder = DATA / "mlflow"
    folder.mkdir()
    return start(
        "mlflow",
        [sys.executable, "-m", "mlflow", "server", "--host", IP, "--port", 5000, "--workers", 1,
         "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
         "--serve-artifacts", "--artifacts-destination", folder / "artifacts",
         # pods call it by its Service's names, which its guard against DNS rebinding would refuse
         "--allowed-hosts", "*"],
        env={
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven workers that nobody calls
            "OMP_NUM_THREADS": 1,
        },
        ready=f"{MLFLOW}/health",
    )  # fmt: skip


def database() -> Process:
    run(
        "mariadb-install-db", "--no-defaults", f"--datadir={DATABASE}", "--user=root",
        "--auth-root-authentication-method=normal", "--skip-test-db",
    )  # fmt: skip
    return start("mariadb", [
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={DATABASE}",
        f"--socket={DATABASE}/s.sock", f"--bind-address={IP}", "--port=3306", "--sql-mode=",
        f"--pid-file={DATABASE}/pid",
    ])  # fmt: skip


def wait() -> None:
    """Until the database serves; then KFP's own user is made."""
    client = ("mariadb", "-uroot", "-S", f"{DATABASE}/s.sock", "-e")
    log = named("mariadb").log
    until("the database", lambda: works(*client, "select 1"), log=log)
    user = "create user kfp@'%' identified by 'kfp'; grant all on *.* to kfp@'%'"
    run(*client, f"create database mlpipeline; {user}")
    wait_ready(named("minio"))


def publish() -> None:
    """Services and Secrets, by the names that Kubeflow's manifests and ours give them."""
    for name in ("minio-service", "seaweedfs"):  # as Kubeflow has it until 2.15; from 2.16 on
        expose(NAMESPACE, name, ("TCP", 9000))
    expose(NAMESPACE, "mlflow", ("TCP", 5000))
    for secret in ("mlpipeline-minio-artifact", "agentrl-storage"):
        kubectl(
            "-n", NAMESPACE, "create", "secret", "generic", secret,
            f"--from-literal=accesskey={KEYS.access}", f"--from-literal=secretkey={KEYS.secret}",
        )  # fmt: skip
