"""Models as the real worker registers them."""

from pathlib import Path

from mlflow.models import Model as ModelDescription
from mlflow_server import mlflow_server
from mlflow_worker import Worker

from agentrl_components.tracking.send_queue import Model


def test_a_registered_model_has_a_description_a_signature_and_the_dialogues_template(
    worker: Worker,
) -> None:
    worker.start()
    folder = worker.folder / "described"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    metadata = {"agentrl": {"template": "plain", "context": 512}}
    described = Model(
        folder=folder, name="described", description="Needs its mask.", metadata=metadata
    )
    assert worker.ask(described).error is None
    [(source, text)] = worker.rows(
        "select source, description from model_versions where name = 'described'"
    )
    assert text == "Needs its mask."
    loaded = ModelDescription.load(source.removeprefix("file://"))
    assert loaded.metadata == metadata
    signature = loaded.signature
    assert [column.name for column in signature.inputs] == ["dialogue"]
    assert [column.name for column in signature.outputs] == ["reply"]


def test_the_same_weights_are_registered_only_once(worker: Worker) -> None:
    run_id = worker.start()
    folder = worker.folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for weights in (b"1", b"1", b"2"):
        (folder / "model.safetensors").write_bytes(weights)
        assert worker.ask(Model(folder=folder, name="agent")).error is None
    versions = worker.rows(
        "select version, source, run_id from model_versions where name = 'agent' order by version"
    )
    assert [version[0] for version in versions] == [1, 2]
    assert {version[2] for version in versions} == {run_id}
    source = Path(versions[1][1].removeprefix("file://"))
    assert (source / "model.safetensors").read_bytes() == b"2"
    assert (source / "MLmodel").exists()


def test_a_server_may_take_longer_over_a_file_of_a_model_than_over_other_requests(
    worker: Worker,
) -> None:
    """A server answers when it has written the file to its bucket. The process has a timeout of
    three seconds here."""
    folder = worker.folder / "slow"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"1")
    with mlflow_server() as server:
        server.answers_files_after_s = 4.0
        assert worker.open(server.uri).error is None
        assert worker.ask(Model(folder=folder, name="agent")).error is None
        assert [path.rpartition("/")[2] for path in server.uploads] == [
            "model.safetensors",
            "MLmodel",
        ]
        assert server.calls[-1] == "POST /api/2.0/mlflow/model-versions/create"


def test_files_that_the_server_has_are_not_uploaded_again(worker: Worker) -> None:
    folder = worker.folder / "large"
    for name in ("model-1.safetensors", "model-2.safetensors", "tokenizer/vocab.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    job = Model(folder=folder, name="agent")
    with mlflow_server() as server:
        assert worker.open(server.uri).error is None
        server.fails_file = "vocab.json"
        reply = worker.ask(job)
        assert reply.error is not None
        assert reply.transient
        server.files[server.uploads[1]] = b"cut"  # as a server leaves it that was killed meanwhile
        assert worker.ask(job).error is None
        names = [path.rpartition("/")[2] for path in server.uploads]
    assert names == [
        *("model-1.safetensors", "model-2.safetensors", "vocab.json"),
        *("model-2.safetensors", "vocab.json", "MLmodel"),
    ]


def test_the_process_tells_of_each_file_that_it_reads_or_uploads(worker: Worker) -> None:
    worker.start()
    folder = worker.folder / "told"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    (folder / "model.safetensors").write_bytes(b"12345")
    worker.progress.clear()
    assert worker.ask(Model(folder=folder, name="agent")).error is None
    assert worker.progress == [2, 5, 2, 5, 0]  # read, uploaded, and the entry in the registry
