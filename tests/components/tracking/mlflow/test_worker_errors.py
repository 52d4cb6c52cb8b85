"""Jobs that fail in the real worker: which of them are sent again."""

import socket
import threading

import pytest
from free_ports import silent_port
from mlflow_server import mlflow_server
from mlflow_worker import Worker
from timed_episode import episode

from agentrl_components.tracking.send_queue import Artifact, Episodes, Metrics


def test_a_missing_file_is_a_permanent_error(worker: Worker) -> None:
    worker.start()
    reply = worker.ask(Artifact(path=worker.folder / "gone.png"))
    assert reply.error is not None
    assert "gone.png" in reply.error
    assert not reply.transient


def test_an_unreachable_server_is_a_transient_error(worker: Worker) -> None:
    with silent_port() as port:
        reply = worker.open(f"http://127.0.0.1:{port}")
    assert reply.error is not None
    assert "refused" in reply.error
    assert reply.transient


def test_a_hanging_server_is_a_transient_error(worker: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        reply = worker.open(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
        for connection in accepted:
            connection.close()
    assert reply.error is not None
    assert reply.transient


def test_an_unwritable_disk_is_a_transient_error(worker: Worker) -> None:
    reply = worker.open("sqlite:////proc/nowhere/mlflow.db")
    assert reply.error is not None
    assert reply.transient


def test_an_unknown_uri_scheme_is_a_permanent_error(worker: Worker) -> None:
    assert worker.open("gopher://mlflow").error is not None


EPISODES = Episodes(iteration=0, name="train", time_ms=5000, episodes=(episode(),))
METRICS = Metrics(iterations={0: (1000, {"success": 0.25})})


def test_a_server_that_takes_no_spans_is_a_permanent_error_of_the_episodes(worker: Worker) -> None:
    with mlflow_server() as server:
        server.version = "3.1.0"
        assert worker.open(server.uri).error is None
        reply = worker.ask(EPISODES)
        assert reply.error is not None
        assert "3.1.0 is less than 3.4" in reply.error
        assert not reply.transient
        assert worker.ask(METRICS).error is None


def test_a_version_that_the_server_did_not_tell_is_asked_for_again(worker: Worker) -> None:
    with mlflow_server() as server:
        server.fails_version = 1
        assert worker.open(server.uri).error is None
        reply = worker.ask(EPISODES)
        assert reply.error is not None
        assert reply.transient
        assert worker.ask(EPISODES).error is None
        assert len(server.span_requests) == 1


@pytest.mark.parametrize(("status", "transient"), [(403, False), (413, False), (500, True)])
def test_the_status_tells_whether_a_file_is_uploaded_again(
    worker: Worker, status: int, transient: bool
) -> None:
    picture = worker.folder / "refused.png"
    picture.write_bytes(b"png")
    with mlflow_server() as server:
        assert worker.open(server.uri).error is None
        server.refuses["refused.png"] = status
        reply = worker.ask(Artifact(path=picture))
    assert reply.error is not None
    assert reply.transient is transient


def test_a_client_of_an_artifact_store_that_is_not_installed_is_a_permanent_error(
    worker: Worker,
) -> None:
    """The server has no `--serve-artifacts`, so that clients write to its bucket themselves."""
    picture = worker.folder / "curve.png"
    picture.write_bytes(b"png")
    with mlflow_server() as server:
        server.artifacts = "s3://bucket/1/run/artifacts"
        assert worker.open(server.uri).error is None
        reply = worker.ask(Artifact(path=picture))
        assert reply.error is not None
        assert reply.error.startswith("ModuleNotFoundError: No module named 'boto3'")
        assert not reply.transient
        assert worker.ask(METRICS).error is None
