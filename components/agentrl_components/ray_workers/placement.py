"""Where Ray places the actors of a run.

On a cluster that other jobs use too, actors that were started one by one could hold GPUs while they
wait for others, which another run holds in the same way, for ever. There the places of all actors
are reserved together, as a placement group of Ray: on as few machines as possible, so that trainers
share one where it is large enough.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Protocol

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.calls.opening import RepeatedNotes
from agentrl_components.ray_workers.calls.results import check_ray
from agentrl_components.ray_workers.nodes.address import check_answers
from agentrl_components.ray_workers.resources import Reservations

NOTED_S = 10.0
"""How long to wait for places before people are told, and again after twice the time."""
POLL_S = 1.0


class Placement(Protocol):
    """The places of trainers and samplers."""

    def trainer(self, rank: int) -> dict[str, Any]:
        """Arguments of Ray's `options` for a trainer."""
        ...

    def sampler(self, place: int) -> dict[str, Any]:
        """Arguments of Ray's `options` for a sampler, also for one that replaces another."""
        ...

    def wait(self) -> None:
        """Wait until there is a place for every actor, after some were lost with their machine:
        without a limit, as at the start. Raises what `check_ray` raises."""
        ...

    def close(self) -> None:
        """Give the places back."""
        ...


class AnyNode:
    """Ray chooses the node of an actor when it is started: no other run uses the cluster."""

    def trainer(self, rank: int) -> dict[str, Any]:
        del rank
        return {}

    def sampler(self, place: int) -> dict[str, Any]:
        del place
        return {}

    def wait(self) -> None:
        pass

    def close(self) -> None:
        pass


class ReservedPlaces:
    """Places for all actors in a placement group. If a machine is lost, Ray reserves those that it
    had on another one."""

    def __init__(
        self,
        reserved: Reservations,
        note: Callable[[str], None],
        *,
        trains: bool = True,
        noted_s: float = NOTED_S,
    ) -> None:
        """Wait until there is room for all actors; without a limit, because others may use the
        cluster for days. `note` tells people after `noted_s` seconds. `trains` is false for an
        evaluation, which has no trainers. Raises what `check_ray` raises, and gives the places
        back then."""
        import ray

        self._trainers = reserved.trainers.count if trains else 0
        self._note, self._noted_s = note, noted_s
        self._reserved, self._places = reserved, reserved.places(trains=trains)
        bundles = [one.needs() for one in self._places]
        self._group = ray.util.placement_group(bundles, strategy="PACK")
        with ExitStack() as failed:
            failed.callback(self.close)
            self.wait()
            failed.pop_all()

    def trainer(self, rank: int) -> dict[str, Any]:
        return self._at(rank)

    def sampler(self, place: int) -> dict[str, Any]:
        return self._at(self._trainers + place)

    def wait(self) -> None:
        notes = RepeatedNotes(self._note, self._noted_s)
        while not self._group.wait(timeout_seconds=POLL_S):
            check_ray()
            notes(lambda _: self._lack())

    def close(self) -> None:
        import ray

        with suppress(RunError):  # the call would wait for a head that has ended
            check_answers(ray.get_runtime_context().gcs_address)
            ray.util.remove_placement_group(self._group)

    def _lack(self) -> str:
        """Which actors have no place yet, and what is free on each machine, in words."""
        import ray
        from ray._private.state import available_resources_per_node

        nodes = ray.util.placement_group_table(self._group)["bundles_to_node_id"]
        lacking = [index for index in range(len(self._places)) if not nodes.get(index)]
        trainers = sum(index < self._trainers for index in lacking)
        free = list(available_resources_per_node().values())
        actors = self._reserved.actors(trainers, len(lacking) - trainers)
        return (
            "waits for room on the Ray cluster of spec.compute.ray: there is none for "
            f"{actors}; free machines, or parts of them: {self._reserved.machines(free)}"
        )

    def _at(self, index: int) -> dict[str, Any]:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        strategy = PlacementGroupSchedulingStrategy(self._group, index)
        return {"scheduling_strategy": strategy}


def open_placement(
    address: str, reserved: Reservations, note: Callable[[str], None], *, trains: bool
) -> Placement:
    """The placement for `compute.ray: address`. An embedded Ray and the run's own cluster have room
    for exactly its actors."""
    if address in ("embedded", "cluster"):
        return AnyNode()
    return ReservedPlaces(reserved, note, trains=trains)
