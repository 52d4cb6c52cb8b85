import pytest
from corridor_server import red_left_2

from agentrl_envs.errors import CapacityError
from agentrl_envs.server.leases import Leases, UnknownLeaseError


class Watch:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_expires_its_time_to_live_after_the_last_use():
    watch = Watch()
    leases = Leases(capacity=2, ttl_s=10, clock=watch)
    lease = leases.acquire("a", red_left_2())
    watch.now = 9.0
    with leases.in_use(lease):
        pass
    watch.now = 18.9
    assert leases.expired() == []
    watch.now = 19.0
    assert leases.expired() == [lease]


def test_a_lease_in_use_does_not_expire_however_long_the_call_takes():
    watch = Watch()
    leases = Leases(capacity=1, ttl_s=10, clock=watch)
    lease = leases.acquire("a", red_left_2())
    with leases.in_use(lease):
        watch.now = 1000.0
        assert leases.expired() == []
    assert leases.expired() == []
    watch.now = 1010.0
    assert leases.expired() == [lease]


def test_a_full_house_refuses_a_new_key_and_knows_an_old_one():
    leases = Leases(capacity=1, ttl_s=10, clock=Watch())
    lease = leases.acquire("a", red_left_2())
    assert leases.acquire("a", red_left_2()) is lease
    with pytest.raises(CapacityError, match="all 1 sessions are in use"):
        leases.acquire("b", red_left_2())


def test_a_released_place_is_free_and_its_id_unknown():
    leases = Leases(capacity=1, ttl_s=10, clock=Watch())
    lease = leases.acquire("a", red_left_2())
    leases.release(lease)
    leases.release(lease)
    with pytest.raises(UnknownLeaseError):
        leases.get(lease.id)
    assert leases.acquire("a", red_left_2()) is not lease


def test_ids_cannot_be_guessed():
    leases = Leases(capacity=100, ttl_s=10, clock=Watch())
    ids = {leases.acquire(str(number), red_left_2()).id for number in range(100)}
    assert len(ids) == 100
    assert min(len(each) for each in ids) >= 22  # 128 bits in base 64
