"""Models as the real worker registers them."""

from pathlib import Path

from mlflow.models import Model as ModelDescription
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
