import pytest
from corridor_server import red_left_2

from agentrl_envs.errors import CapacityError
from agentrl_envs.server.leases import Leases, UnknownLeaseError


class FakeClock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lease_expires_one_ttl_after_its_last_use():
    clock = FakeClock()
    leases = Leases(capacity=2, ttl_s=10, clock=clock)
    lease = leases.acquire("a", red_left_2())
    clock.now = 9.0
    with leases.in_use(lease):
        pass
    clock.now = 18.9
    assert leases.expired() == []
    clock.now = 19.0
    assert leases.expired() == [lease]


def test_lease_in_use_does_not_expire():
    clock = FakeClock()
    leases = Leases(capacity=1, ttl_s=10, clock=clock)
    lease = leases.acquire("a", red_left_2())
    with leases.in_use(lease):
        clock.now = 1000.0
        assert leases.expired() == []
    assert leases.expired() == []
    clock.now = 1010.0
    assert leases.expired() == [lease]


def test_new_key_is_refused_at_capacity_and_existing_key_is_not():
    leases = Leases(capacity=1, ttl_s=10, clock=FakeClock())
    lease = leases.acquire("a", red_left_2())
    assert leases.acquire("a", red_left_2()) is lease
    with pytest.raises(CapacityError, match="all 1 sessions are in use"):
        leases.acquire("b", red_left_2())


def test_released_lease_is_unknown_and_frees_its_slot():
    leases = Leases(capacity=1, ttl_s=10, clock=FakeClock())
    lease = leases.acquire("a", red_left_2())
    leases.release(lease)
    leases.release(lease)
    with pytest.raises(UnknownLeaseError):
        leases.get(lease.id)
    assert leases.acquire("a", red_left_2()) is not lease


def test_lease_ids_are_unique_and_have_128_bits():
    leases = Leases(capacity=100, ttl_s=10, clock=FakeClock())
    ids = {leases.acquire(str(number), red_left_2()).id for number in range(100)}
    assert len(ids) == 100
    assert min(len(each) for each in ids) >= 22  # 128 bits in base 64
