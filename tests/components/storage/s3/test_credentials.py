"""Credentials of `S3Store`: keys from the environment, and keys that an identity obtains."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

import minio_service
import pytest
import tenacity
import urllib3
from http_server import serving
from identity_provider import AUDIENCE, ROLE, IdentityProvider, running_provider
from minio.credentials import Provider

from agentrl_components.errors import StoreError
from agentrl_components.storage.s3.credentials import find_credentials, identity_keys
from agentrl_components.storage.s3.store import S3Store

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
TOKEN = "header.a-token-nobody-prints.signature"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *KEYS,
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_ENDPOINT_URL_STS",
    ):
        monkeypatch.delenv(name, raising=False)


def set_env(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def store_at(endpoint: str, credentials: Provider, deadline_s: float = 60.0) -> S3Store:
    """A store with a prefix of its own."""
    return S3Store(
        bucket=minio_service.BUCKET,
        prefix=f"test-{uuid.uuid4().hex}",
        endpoint=endpoint,
        region="us-east-1",
        credentials=credentials,
        deadline_s=deadline_s,
    )


def test_keys_are_read_from_the_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    set_env(monkeypatch, TEAM_KEY="a", TEAM_SECRET="b", AWS_SESSION_TOKEN="of other keys")
    found = find_credentials("TEAM_KEY", "TEAM_SECRET", None).retrieve()
    assert (found.access_key, found.secret_key, found.session_token) == ("a", "b", None)


def test_temporary_keys_come_with_their_session_token(monkeypatch: pytest.MonkeyPatch) -> None:
    set_env(
        monkeypatch, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_SESSION_TOKEN="token"
    )
    assert find_credentials(*KEYS, None).retrieve().session_token == "token"


def test_missing_keys_are_named() -> None:
    with pytest.raises(StoreError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY not set"):
        find_credentials(*KEYS, None)


def test_one_of_two_keys_is_a_mistake_and_no_reason_to_use_the_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_env(monkeypatch, AWS_ACCESS_KEY_ID="a", AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"))
    with pytest.raises(StoreError, match="storage: AWS_SECRET_ACCESS_KEY not set"):
        find_credentials(*KEYS, None)


def test_keys_come_before_the_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_env(
        monkeypatch,
        AWS_ACCESS_KEY_ID="a",
        AWS_SECRET_ACCESS_KEY="b",
        AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"),
    )
    assert find_credentials(*KEYS, None).retrieve().access_key == "a"


def test_a_process_without_an_identity_is_told_what_is_missing() -> None:
    with pytest.raises(StoreError, match=r"AWS_WEB_IDENTITY_TOKEN_FILE and .* are not set"):
        identity_keys("us-east-1")


@pytest.mark.parametrize("region", ["evil.example.org/", "us-east-1@evil", "US EAST"])
def test_a_region_cannot_name_the_host_that_gets_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, region: str
) -> None:
    set_env(monkeypatch, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"))
    with pytest.raises(StoreError, match=r"is not a region of AWS; correct storage\.region"):
        identity_keys(region)


class TokenService(BaseHTTPRequestHandler):
    """A Security Token Service whose keys end at once, and which refuses what `refusals` has."""

    tokens: ClassVar[list[str]] = []
    refusals: ClassVar[list[tuple[int, str]]] = []

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.tokens.append(query["WebIdentityToken"][0])
        if self.refusals:
            status, code = self.refusals.pop(0)
            body = f"<ErrorResponse><Error><Code>{code}</Code></Error></ErrorResponse>"
            self.answer(status, body)
            return
        end = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = (
            f"<AccessKeyId>key-{len(self.tokens)}</AccessKeyId>"
            "<SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>"
            f"<Expiration>{end}</Expiration>"
        )
        name = "AssumeRoleWithWebIdentity"
        result = f"<{name}Result><Credentials>{keys}</Credentials></{name}Result>"
        self.answer(200, f"<{name}Response>{result}</{name}Response>")

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def token_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The file with the token of a process that obtains its keys at a `TokenService`."""
    TokenService.tokens.clear()
    TokenService.refusals.clear()
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with serving(TokenService) as url:
        set_env(
            monkeypatch,
            AWS_WEB_IDENTITY_TOKEN_FILE=str(file),
            AWS_ROLE_ARN="arn:aws:iam::1:role/trainer",
            AWS_ENDPOINT_URL_STS=url,
        )
        yield file


def test_keys_are_renewed_with_the_token_that_the_file_has_then(token_service: Path) -> None:
    provider = find_credentials(*KEYS, None)
    assert provider.retrieve().access_key == "key-1"
    token_service.write_text("a newer token")
    assert provider.retrieve().access_key == "key-2"
    assert TokenService.tokens == [TOKEN, "a newer token"]


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (400, "ExpiredTokenException"), (302, "Found")]
)
def test_a_refused_identity_is_told_without_its_token_and_not_repeated(
    token_service: Path, status: int, code: str
) -> None:
    TokenService.refusals.append((status, code))
    store = store_at("http://127.0.0.1:1", find_credentials(*KEYS, None))
    with pytest.raises(StoreError, match=f"identity of this process: {status} {code}") as caught:
        store.exists("a")
    assert "nobody-prints" not in str(caught.value)
    assert len(TokenService.tokens) == 1


@pytest.mark.usefixtures("token_service")
def test_a_token_service_that_is_busy_is_asked_again(minio_endpoint: str) -> None:
    TokenService.refusals += [(503, "ServiceUnavailable"), (429, "Throttling")]
    store = store_at(minio_endpoint, find_credentials(*KEYS, None))
    with pytest.raises(StoreError, match=r"InvalidTokenId|InvalidAccessKeyId"):
        store.get("a")  # this service's keys are not MinIO's
    assert len(TokenService.tokens) == 3


def test_a_token_service_that_does_not_answer_is_an_error_without_the_token(
    token_service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_env(monkeypatch, AWS_ENDPOINT_URL_STS="http://127.0.0.1:9")
    store = store_at("http://127.0.0.1:1", find_credentials(*KEYS, None), deadline_s=0.1)
    with pytest.raises(StoreError, match="refused") as caught:
        store.exists("a")
    assert "nobody-prints" not in str(caught.value)


def test_an_agent_on_the_node_gives_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == TOKEN and self.path == "/v1/credentials"
            body = (
                b'{"AccessKeyId": "key", "SecretAccessKey": "secret", "Token": "session",'
                b' "Expiration": "2100-01-01T00:00:00Z"}'
            )
            self.send_response(200 if allowed else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    (tmp_path / "token").write_text(TOKEN)
    with serving(Agent) as url:
        set_env(
            monkeypatch,
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{url}/v1/credentials",
            AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(tmp_path / "token"),
        )
        keys = find_credentials(*KEYS, "us-east-1").retrieve()
    assert (keys.access_key, keys.session_token) == ("key", "session")


@pytest.fixture(scope="module")
def trusting_minio(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, IdentityProvider]]:
    """A MinIO that gives keys for the tokens of an identity provider, and that provider."""
    program = minio_service.binary()
    if program is None:
        pytest.skip("MinIO is not installed; `make services` builds it")
    with running_provider() as provider:
        options = {
            "MINIO_IDENTITY_OPENID_CONFIG_URL": provider.config_url,
            "MINIO_IDENTITY_OPENID_CLIENT_ID": AUDIENCE,
            "MINIO_IDENTITY_OPENID_ROLE_POLICY": "readwrite",
        }
        folder = tmp_path_factory.mktemp("minio")
        with minio_service.running_server(program, folder, options) as endpoint:
            wait_until_trusting(endpoint, provider)
            yield endpoint, provider


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(AssertionError),
    wait=tenacity.wait_fixed(0.2),
    stop=tenacity.stop_after_delay(120),
    reraise=True,
)
def wait_until_trusting(endpoint: str, provider: IdentityProvider) -> None:
    """Wait until MinIO knows the provider. It is ready before, and then refuses its tokens."""
    fields = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "WebIdentityToken": provider.token(AUDIENCE),
    }
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = urllib3.request("POST", endpoint, body=urlencode(fields), headers=kind)
    assert answer.status == 200, answer.data


@pytest.fixture
def trusted_store(
    trusting_minio: tuple[str, IdentityProvider], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., S3Store]:
    """Makes a store at this MinIO for a process with a token for `audience`."""
    endpoint, provider = trusting_minio

    def store(audience: str = AUDIENCE) -> S3Store:
        (tmp_path / "token").write_text(provider.token(audience))
        set_env(
            monkeypatch,
            AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"),
            AWS_ROLE_ARN=ROLE,
            AWS_ENDPOINT_URL_STS=endpoint,
        )
        return store_at(endpoint, find_credentials(*KEYS, None))

    return store


def test_minio_gives_keys_for_a_token_and_accepts_them(
    trusted_store: Callable[..., S3Store], tmp_path: Path
) -> None:
    store = trusted_store()
    with (tmp_path / "large").open("wb") as file:
        file.truncate((64 << 20) + 1)  # two parts
    store.put("a", b"1")
    store.put_file("large", tmp_path / "large")
    assert store.get("a") == b"1"
    assert list(store.list("")) == ["a", "large"]
    store.delete_many(["a", "large"])
    assert list(store.list("")) == []


def test_minio_refuses_a_token_for_somebody_else(trusted_store: Callable[..., S3Store]) -> None:
    store = trusted_store(audience="another service")
    with pytest.raises(StoreError, match="gives no keys to the identity of this process: 400"):
        store.put("a", b"1")
