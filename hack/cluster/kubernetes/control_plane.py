"""Start etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

from cluster.command import kubectl, works
from cluster.kubernetes.certificates import PKI
from cluster.processes import LOGS, start, wait_until
from cluster.settings import BIN, DATA, IP, KUBECONFIG, SERVICE_CIDR

ETCD = "http://127.0.0.1:23790"
PEER = "http://127.0.0.1:23800"


def start_api_server() -> None:
    """Start etcd and the API server; `wait_ready` waits until they serve."""
    start("etcd", [
        BIN / "etcd", "--data-dir", DATA / "etcd",
        "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD,
        "--listen-peer-urls", PEER, "--initial-advertise-peer-urls", PEER,
        "--initial-cluster", f"default={PEER}",
        "--unsafe-no-fsync",  # no data has to survive a power failure
    ])  # fmt: skip
    start("apiserver", [
        BIN / "kube-apiserver", "--etcd-servers", ETCD,
        "--secure-port", 6443, "--bind-address", IP, "--advertise-address", IP,
        "--service-cluster-ip-range", SERVICE_CIDR,
        "--tls-cert-file", PKI / "apiserver.crt", "--tls-private-key-file", PKI / "apiserver.key",
        "--client-ca-file", PKI / "ca.crt",
        "--service-account-key-file", PKI / "sa.pub",
        "--service-account-signing-key-file", PKI / "sa.key",
        "--service-account-issuer", "https://kubernetes.default.svc",
        "--authorization-mode", "Node,RBAC", "--allow-privileged=true",
        "--kubelet-client-certificate", PKI / "admin.crt",
        "--kubelet-client-key", PKI / "admin.key",
        "--kubelet-preferred-address-types=InternalIP",  # the name of the node does not resolve
        "--shutdown-delay-duration=0s",
    ])  # fmt: skip


def wait_ready() -> None:
    """Wait for the API server, then start the controller manager and the scheduler."""
    wait_until("the API server", is_ready, log=LOGS / "apiserver.log")
    start("controller-manager", [
        BIN / "kube-controller-manager", "--kubeconfig", KUBECONFIG,
        "--service-account-private-key-file", PKI / "sa.key", "--root-ca-file", PKI / "ca.crt",
        "--cluster-signing-cert-file", PKI / "ca.crt", "--cluster-signing-key-file", PKI / "ca.key",
        "--use-service-account-credentials", "--leader-elect=false",
    ])  # fmt: skip
    start("scheduler", [
        BIN / "kube-scheduler", "--kubeconfig", KUBECONFIG, "--leader-elect=false",
    ])  # fmt: skip


def is_ready() -> bool:
    return works("kubectl", "--kubeconfig", KUBECONFIG, "get", "--raw", "/readyz", seconds=5)


def create_namespace(name: str) -> None:
    kubectl("create", "namespace", name)
