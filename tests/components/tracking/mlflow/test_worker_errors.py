"""Jobs that fail in the real worker: which of them are sent again."""

import socket
import threading

from mlflow_worker import Worker

from agentrl_components.tracking.mlflow.messages import Target
from agentrl_components.tracking.send_queue import Artifact, Params


def test_a_missing_file_is_a_permanent_error(worker: Worker) -> None:
    worker.start()
    reply = worker.ask(Artifact(path=worker.folder / "gone.png"))
    assert reply.error is not None
    assert "gone.png" in reply.error
    assert not reply.transient


def test_a_changed_param_is_a_permanent_error(worker: Worker) -> None:
    worker.start()
    assert worker.ask(Params(values={"seed": "0"})).error is None
    assert worker.ask(Params(values={"seed": "0"})).error is None
    reply = worker.ask(Params(values={"seed": "1"}))
    assert reply.error is not None
    assert "seed" in reply.error
    assert not reply.transient


def target_at(uri: str) -> Target:
    return Target(
        uri=uri, artifacts=None, experiment="agentrl", run_name="babyai", run_id=None, uid=None
    )


def test_an_unreachable_server_is_a_transient_error(worker: Worker) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    reply = worker.ask(target_at(f"http://127.0.0.1:{port}"))
    assert reply.error is not None
    assert "refused" in reply.error
    assert reply.transient


def test_a_hanging_server_is_a_transient_error(worker: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        reply = worker.ask(target_at(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
        for connection in accepted:
            connection.close()
    assert reply.error is not None
    assert reply.transient


def test_an_unwritable_disk_is_a_transient_error(worker: Worker) -> None:
    reply = worker.ask(target_at("sqlite:////proc/nowhere/mlflow.db"))
    assert reply.error is not None
    assert reply.transient


def test_an_unknown_uri_scheme_is_a_permanent_error(worker: Worker) -> None:
    assert worker.ask(target_at("gopher://mlflow")).error is not None
