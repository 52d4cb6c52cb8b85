"""Environment variables that a manifest may not have sent to an address that it names.

A manifest names the variables of tokens, passwords and keys, and the addresses that get them. A
variable of another service would give its credentials to whoever wrote the manifest.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

OTHER_SERVICES = (
    "^(ANTHROPIC_|AWS_|AZURE_|GEMINI_|GITHUB_|GOOGLE_|HF_|HUGGING|KUBE|MINIO_|MLFLOW_|OPENAI_|RAY_"
    "|WANDB_)"
)
"""Begin of the names that well-known services and tools give their variables. Valid for pydantic
(Rust regex), the API server (RE2) and Python."""

_OWN_HOSTS = {
    "ANTHROPIC_": "api.anthropic.com",
    "AZURE_": "openai.azure.com",
    "GEMINI_": "generativelanguage.googleapis.com",
    "HF_": "router.huggingface.co",
    "OPENAI_": "api.openai.com",
}
"""Hosts, with their subdomains, of services that have models, by the begin of their variables."""


def is_of_another_service(variable: str) -> bool:
    """Whether `variable` holds credentials of a well-known service."""
    return re.match(OTHER_SERVICES, variable) is not None


def is_sent_home(variable: str, url: str) -> bool:
    """Whether `url` is that of the service whose variable it is: by https, and its host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" and any(
        variable.startswith(begin) and (host == own or host.endswith(f".{own}"))
        for begin, own in _OWN_HOSTS.items()
    )
