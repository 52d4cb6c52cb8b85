"""Models from a bucket: which service they come from, and which files."""

from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from http_server import AnswerHandler, serving

from agentrl_components.errors import ModelError
from agentrl_components.model.sources import fetch_model
from agentrl_components.spec import Model, Storage

MODEL = Model(source="s3://models/runs/walk/checkpoints/000010")
FILES = (
    "config.json",
    "model.safetensors",
    "trainer/optimizer.safetensors",
    "modeling_own.py",
    "own/code.py",
    "pytorch_model.bin",
)
LISTED = "".join(
    f"<Contents><Key>runs/walk/checkpoints/000010/{name}</Key><Size>2</Size></Contents>"
    for name in FILES
)


class Bucket(AnswerHandler):
    """An S3 service with a checkpoint in the bucket `models`."""

    fetched: ClassVar[list[str]] = []
    keys: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.keys.add(self.headers["Authorization"].partition("Credential=")[2].split("/")[0])
        url = urlsplit(self.path)
        if "location" in parse_qs(url.query, keep_blank_values=True):
            body = b"<LocationConstraint>us-east-1</LocationConstraint>"
        elif "list-type" in parse_qs(url.query):
            assert (url.path, parse_qs(url.query)["prefix"]) == (
                "/models",
                ["runs/walk/checkpoints/000010/"],
            )
            body = f"<ListBucketResult><Name>models</Name>{LISTED}</ListBucketResult>".encode()
        else:
            self.fetched.append(url.path.removeprefix("/models/runs/walk/checkpoints/000010/"))
            body = b"{}"
        self.answer(200, body)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "own")
    monkeypatch.setenv("MODEL_SECRET", "a-secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")


@pytest.mark.usefixtures("keys")
def test_a_model_from_a_bucket_comes_from_the_service_of_the_run_without_optimizer_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    Bucket.fetched.clear()
    Bucket.keys.clear()
    with serving(Bucket) as url:
        storage = Storage(
            endpoint=url,
            region="us-east-1",
            access_key_env="MODEL_KEY",
            secret_key_env="MODEL_SECRET",
        )
        folder = fetch_model(MODEL, (), 0, tmp_path, storage)
    assert sorted(Bucket.fetched) == ["config.json", "model.safetensors"]
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert Bucket.keys == {"own"}


@pytest.mark.usefixtures("keys")
def test_without_a_service_of_the_run_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    Bucket.keys.clear()
    with serving(Bucket) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert (fetch_model(MODEL, (), 0, tmp_path) / "config.json").is_file()
    assert Bucket.keys == {"other"}


def test_the_address_of_a_folder_may_be_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "a model"
    folder.mkdir()
    (folder / "config.json").touch()
    for name in ("a model", "a%20model"):
        model = Model(source=f"file://{tmp_path}/{name}")
        assert fetch_model(model, (), 0, tmp_path / "unused") == folder


def test_a_registered_model_needs_the_address_of_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: MLflow created a database in the current folder and looked there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    with pytest.raises(ModelError) as raised:
        fetch_model(Model(source="models:/walker/1"), (), 0, tmp_path / "model")
    assert str(raised.value) == (
        "models:/walker/1: needs the address of the registry in MLFLOW_TRACKING_URI; for a model "
        "of a run on this machine, set it to sqlite:/// and the absolute path of mlflow.db in the "
        "run's folder, such as sqlite:////home/me/runs/NAME/mlflow.db"
    )
    assert list(tmp_path.iterdir()) == []
