"""The order of a hand-over in buckets, with trainers and samplers that stand for those on GPUs."""

import pytest

from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer

pytest.importorskip("ray")


class RecordedMethod:
    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def remote(self, *arguments):
        import ray

        self.calls.append(self.name)
        return ray.put(8)


class RecordedSampler:
    """Stands for an actor, and keeps the calls of its methods."""

    def __init__(self, calls):
        self.calls = calls

    def __getattr__(self, method):
        return RecordedMethod(method, self.calls)


class RecordedSource:
    """Stands for trainers with three buckets."""

    def __init__(self):
        self.calls = []

    def buckets(self, *, adapters):
        for number in range(3):
            self.calls.append("gather")
            yield number

    def rest(self):
        self.calls.append("rest")


@pytest.mark.parametrize("shares", [False, True])
def test_trainers_give_back_what_they_gathered_in_before_samplers_take_their_cache(ray, shares):
    source = RecordedSource()
    transfer = BucketTransfer(source, adapters=False, shares=shares)
    assert transfer.send([RecordedSampler(source.calls)], 1).bytes == 3 * 8
    rest = ["rest"] if shares else []
    assert source.calls == ["start_update", *["gather", "load"] * 3, *rest, "finish_update"]
