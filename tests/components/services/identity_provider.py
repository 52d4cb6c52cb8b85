"""An OpenID Connect provider on this machine, in the role of a cluster's service account issuer."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from http_server import AnswerHandler, serving


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


AUDIENCE = "sts.agentrl.test"
ROLE = f"arn:minio:iam:::role/{_encoded(hashlib.sha1(AUDIENCE.encode()).digest())}"
"""The name that MinIO gives to the role of this provider's tokens: a hash of their audience."""


class IdentityProvider:
    """Signs tokens with a key that it publishes at `url`."""

    def __init__(self, url: str, key: rsa.RSAPrivateKey) -> None:
        self.url = url
        self._key = key

    @property
    def config_url(self) -> str:
        """The address of the provider's description."""
        return f"{self.url}/.well-known/openid-configuration"

    def token(self, audience: str = AUDIENCE) -> str:
        """A token of the service account `trainer` that is valid for an hour."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": audience,
            "sub": "system:serviceaccount:kubeflow:trainer",
            "iat": now,
            "exp": now + 3600,
        }
        header = {"alg": "RS256", "kid": "key", "typ": "JWT"}
        content = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{content}.{_encoded(signature)}"


@contextmanager
def running_provider() -> Iterator[IdentityProvider]:
    """Serve the description and the public key of a provider."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = key.public_key().public_numbers()
    public = {
        "kty": "RSA",
        "kid": "key",
        "use": "sig",
        "alg": "RS256",
        "n": _encoded(numbers.n.to_bytes(256, "big")),
        "e": _encoded(numbers.e.to_bytes(3, "big")),
    }

    class Handler(AnswerHandler):
        def do_GET(self) -> None:
            url = f"http://{self.headers['Host']}"
            answer: dict[str, Any] = {"keys": [public]}
            if self.path.startswith("/.well-known"):
                answer = {
                    "issuer": url,
                    "jwks_uri": f"{url}/keys",
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                }
            body = json.dumps(answer).encode()
            self.answer(200, body, "application/json")

    with serving(Handler) as url:
        yield IdentityProvider(url, key)
