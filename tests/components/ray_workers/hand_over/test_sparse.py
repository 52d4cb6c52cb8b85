"""When changes are handed over in the place of all weights."""

import pytest

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.hand_over.sparse import SparseTransfer
from agentrl_components.ray_workers.hand_over.transfer import HandOver


class RecordingWay:
    """Stands for a way to samplers, and keeps what was sent."""

    def __init__(self):
        self.calls, self.lost = [], {}

    def send(self, samplers, version):
        self.calls.append(("all", version, list(samplers)))
        return HandOver(seconds=0.0, bytes=100, lost=self.lost)

    def send_changes(self, samplers, version, since):
        self.calls.append(("changes", version, since, list(samplers)))
        return HandOver(seconds=0.0, bytes=3, lost=self.lost)

    def send_again(self, samplers, version):
        self.calls.append(("again", version, list(samplers)))
        return HandOver(seconds=0.0, bytes=100, lost=self.lost)


class RecordingSource:
    """Stands for trainers, and counts how often they kept their weights."""

    def __init__(self):
        self.few, self.kept = True, 0

    def find_changes(self):
        return self.few

    def remember_weights(self):
        self.kept += 1


@pytest.fixture
def way():
    return RecordingWay()


@pytest.fixture
def source():
    return RecordingSource()


@pytest.fixture
def transfer(source, way):
    return SparseTransfer(source, way)


def test_all_weights_are_sent_first_and_changes_after_them(transfer, way, source):
    assert [transfer.send(["a", "b"], version).bytes for version in (4, 5, 9)] == [100, 3, 3]
    assert way.calls == [
        ("all", 4, ["a", "b"]),
        ("changes", 5, 4, ["a", "b"]),
        ("changes", 9, 5, ["a", "b"]),
    ]
    assert source.kept == 3


def test_all_weights_are_sent_if_most_have_changed(transfer, way, source):
    transfer.send(["a"], 1)
    source.few = False
    transfer.send(["a"], 2)
    source.few = True
    transfer.send(["a"], 3)
    assert [call[0] for call in way.calls] == ["all", "all", "changes"]


def test_all_weights_are_sent_if_a_sampler_has_not_had_the_last_ones(transfer, way):
    transfer.send(["a", "b"], 1)
    way.lost = {1: WorkersLostError("died")}
    transfer.send(["a", "b"], 2)
    way.lost = {}
    transfer.send(["a", "c"], 3)
    assert [call[0] for call in way.calls] == ["all", "changes", "all"]


def test_a_sampler_that_was_given_the_last_weights_again_gets_changes(transfer, way):
    transfer.send(["a", "b"], 1)
    way.lost = {0: WorkersLostError("died")}
    transfer.send(["a", "b"], 2)
    way.lost = {}
    transfer.send_again(["c"], 2)
    transfer.send(["c", "b"], 3)
    assert [call[0] for call in way.calls] == ["all", "changes", "again", "changes"]


def test_all_weights_are_sent_after_a_hand_over_that_failed(transfer, way):
    transfer.send(["a"], 1)
    way.send_changes = None
    with pytest.raises(TypeError):
        transfer.send(["a"], 2)
    transfer.send(["a"], 3)
    assert [call[0] for call in way.calls] == ["all", "all"]
