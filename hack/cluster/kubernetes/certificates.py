"""Create the certificate authority of the local cluster, its certificates and kubeconfigs."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.command import run
from cluster.settings import IP, NODE, STATE

PKI = STATE / "pki"
DAYS = 30


@dataclass(frozen=True, slots=True)
class Identity:
    """Subject of a certificate, and the names and addresses it is valid for."""

    name: str
    subject: str
    names: tuple[str, ...]


SERVICE = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
)
IDENTITIES = (
    Identity(
        "apiserver",
        "/CN=kube-apiserver",
        ("IP:127.0.0.1", "IP:10.96.0.1", f"IP:{IP}", "DNS:localhost", *SERVICE),
    ),
    Identity("admin", "/O=system:masters/CN=admin", ("DNS:admin",)),
    Identity(
        "node",
        f"/O=system:nodes/CN=system:node:{NODE}",
        (f"DNS:{NODE}", "IP:127.0.0.1", f"IP:{IP}"),
    ),
)


def create() -> None:
    """Write `pki/` and one NAME.kubeconfig per identity to the state folder."""
    PKI.mkdir(parents=True, exist_ok=True, mode=0o700)
    openssl("genrsa", "-out", "sa.key", "2048")
    openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
        "-days", DAYS, "-subj", "/CN=ca",
    )  # fmt: skip
    for identity in IDENTITIES:
        sign(identity)
        (STATE / f"{identity.name}.kubeconfig").write_text(kubeconfig(identity.name))


def sign(identity: Identity) -> None:
    name = identity.name
    usage = "extendedKeyUsage=serverAuth,clientAuth\n"
    (PKI / f"{name}.ext").write_text(f"subjectAltName={','.join(identity.names)}\n{usage}")
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
        "-subj", identity.subject,
    )  # fmt: skip
    openssl(
        "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
        "-CAcreateserial", "-out", f"{name}.crt", "-days", DAYS, "-extfile", f"{name}.ext",
    )  # fmt: skip


def openssl(*argv: object) -> None:
    run("openssl", *argv, cwd=PKI)


def kubeconfig(name: str) -> str:
    return f"""apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {{server: "https://{IP}:6443", certificate-authority: "{PKI}/ca.crt"}}
users:
- name: {name}
  user: {{client-certificate: "{PKI}/{name}.crt", client-key: "{PKI}/{name}.key"}}
contexts:
- name: agentrl
  context: {{cluster: cluster, user: {name}}}
current-context: agentrl
"""
