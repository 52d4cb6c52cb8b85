"""Actors that end with their driver, and actors that outlive it.

On the run's own cluster (`compute.ray: cluster`) every stage is a driver, and may be killed. There,
actors stay when a driver ends, and the next one takes them over: their processes, imports, model
files, process groups and engines are there already. It waits until Ray counts the earlier driver as
dead, so that no two drivers call the same actors.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from agentrl_components.errors import RunError, WorkersLostError
from agentrl_components.ray_workers.calls.results import check_ray
from agentrl_components.spec import RunSpec

NAMESPACE = "agentrl"
"""Ray's namespace of the names of actors."""
DRIVER_S = 60.0
"""How long to wait until Ray counts an earlier driver as dead: it does so at once if the process
ended, and 15 s later if its machine did."""
TAKEN_OVER_S = 60.0
"""How long an actor may take to end what an earlier driver asked of it."""
BEHIND_S = 10.0
"""How long the other actors may take to answer after the first one has, if all of them make the
same collective calls. They end these at the same time, unless one waits for a call that another
never received."""
ENDED_S = 60.0
"""How long a killed actor may take to end, and to free its name."""
POLL_S = 0.2
INTERNAL = "_ray_internal"
"""How the namespaces of Ray's own drivers begin, for instance that of the dashboard."""


class WithDriver:
    """Actors end with the driver that starts them."""

    lasting = False

    def options(self, name: str) -> dict[str, Any]:
        """Arguments of Ray's `options` for the actor called `name`."""
        del name
        return {}

    def take_over(self, names: Sequence[str], *, all_or_none: bool) -> list[Any | None]:
        """None for each name: there are no actors of an earlier driver."""
        del all_or_none
        return [None] * len(names)

    def end(self, name: str, actor: Any) -> None:
        """Kill an actor. Another one of that name may be started then."""
        import ray

        del name
        ray.kill(actor)


@dataclass(frozen=True, slots=True)
class Lasting:
    """Actors stay until they are killed or their cluster ends. One driver at a time uses them."""

    made_of: str
    """Digest of what the actors of this driver are created from. An actor that was created from
    something else is not taken over."""
    wait_s: float = DRIVER_S
    """How long to wait for Ray to count an earlier driver as dead."""
    answer_s: float = TAKEN_OVER_S
    """How long to wait for an actor's answer."""
    lasting = True

    def options(self, name: str) -> dict[str, Any]:
        """Arguments of Ray's `options` for the actor called `name`."""
        return {"name": self._full(name), "namespace": NAMESPACE, "lifetime": "detached"}

    def take_over(self, names: Sequence[str], *, all_or_none: bool) -> list[Any | None]:
        """The actors of an earlier driver by these names, `ROLE-NUMBER`; None for each that there
        is not. All others of the role are killed: those that do not answer in time, that cannot be
        used any more, or that were created from something else. `all_or_none`: if one is missing,
        the others are of no use.

        Raises:
            RunError: another driver lives.
            WorkersLostError: a killed actor does not end, or the head of the cluster was lost.
        """
        import ray

        alone = _in_time(self.wait_s, lambda: not _other_drivers())
        if not alone and (others := _other_drivers()):
            raise RunError(
                "spec.compute.ray: another process uses the Ray cluster of the run "
                f"({', '.join(others)}), which is for one stage at a time; end that "
                "process, or delete its pod, and start this stage again"
            )
        wanted = [self._full(name) for name in names]
        left = _actors_of(names[0].partition("-")[0])
        found = [name for name in wanted if name in left]
        if all_or_none and len(found) < len(wanted):
            found = []
        calls = [left[name].take_over.remote() for name in found]
        if calls and all_or_none:
            ray.wait(calls, num_returns=1, timeout=self.answer_s)
            ray.wait(calls, num_returns=len(calls), timeout=BEHIND_S)
        elif calls:
            ray.wait(calls, num_returns=len(calls), timeout=self.answer_s)
        taken = [name for name, call in zip(found, calls, strict=True) if _succeeded(call)]
        if all_or_none and len(taken) < len(wanted):
            taken = []
        _end({name: actor for name, actor in left.items() if name not in taken})
        return [left[name] if name in taken else None for name in wanted]

    def end(self, name: str, actor: Any) -> None:
        """Kill an actor. Another one of that name may be started then. Raises what `take_over`
        raises."""
        _end({self._full(name): actor})

    def _full(self, name: str) -> str:
        return f"{name}/{self.made_of}"


Lifetime = WithDriver | Lasting


def lifetime_of(spec: RunSpec, vocabulary: Sequence[str], *, trains: bool, code: str) -> Lifetime:
    """How long the actors of a run stay. `vocabulary` and `trains` are as `Actors` takes them,
    and `code` is the driver's `installed_code`, which its actors run, too. Those that share GPUs
    end with their driver: samplers of an evaluation need the GPUs of trainers that a phase would
    leave."""
    if spec.compute.ray != "cluster" or spec.compute.share_gpus:
        return WithDriver()
    made_of = f"{code} {spec.model_dump_json()} {list(vocabulary)} {trains}"
    return Lasting(hashlib.sha256(made_of.encode()).hexdigest()[:16])


def _other_drivers() -> list[str]:
    """The other drivers that Ray counts as alive, in words."""
    import ray
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # a class of C++

    context = ray.get_runtime_context()
    # Without two costly fields of each job.
    jobs = GcsClient(address=context.gcs_address).get_all_job_info(
        skip_submission_job_info_field=True, skip_is_running_tasks_field=True
    )
    return [
        f"PID {job.driver_pid} at {job.driver_ip_address}"
        for job in jobs.values()
        if not job.is_dead
        and job.job_id.hex() != context.get_job_id()
        and not job.config.ray_namespace.startswith(INTERNAL)
    ]


def _names_in_use() -> set[str]:
    """Raises `WorkersLostError` if the head does not answer, or is another one than before."""
    import ray
    from ray.exceptions import RayError

    try:
        listed = ray.util.list_named_actors(all_namespaces=True)
    except RayError as error:
        reason = str(error).partition("\n")[0]
        raise WorkersLostError(f"the head of the Ray cluster was lost: {reason}") from error
    return {one["name"] for one in listed if one["namespace"] == NAMESPACE}


def _actors_of(role: str) -> dict[str, Any]:
    """The named actors of a role, by full name. Kills those that cannot be called any more. Raises
    `WorkersLostError` if one of these does not end."""
    import ray

    found, unknown = {}, set()
    for name in _names_in_use():
        if name.startswith(f"{role}-"):
            try:
                found[name] = ray.get_actor(name, NAMESPACE)
            except ValueError:  # it has ended meanwhile
                continue
            except AssertionError:  # Ray has deleted the class that its driver had exported
                unknown.add(name)
    _end_unknown(unknown)
    return found


def _succeeded(call: Any) -> bool:
    """Whether a call has ended without an error."""
    import ray
    from ray.exceptions import RayError

    try:
        ray.get(call, timeout=0)
    except RayError:  # one of them says that the call goes on
        return False
    return True


def _end(actors: Mapping[str, Any]) -> None:
    """Kill actors, and wait until their names are free."""
    import ray

    for actor in actors.values():
        ray.kill(actor)
    _until_free(actors.keys())


def _end_unknown(names: Set[str]) -> None:
    """Kill actors of which there is no handle, and wait until their names are free."""
    if not names:
        return
    from ray import ActorID
    from ray._private.state import state
    from ray._private.worker import global_worker

    for actor, info in state.actor_table(None).items():
        if info["Name"] in names and info["State"] != "DEAD":
            # `get_actor` has made the actor known to this process before it failed.
            global_worker.core_worker.kill_actor(ActorID.from_hex(actor), True)
    _until_free(names)


def _until_free(names: Set[str]) -> None:
    """Wait until no actor has one of these names. Raises `WorkersLostError` if that takes long."""
    if not _in_time(ENDED_S, lambda: not names & _names_in_use()):
        raise WorkersLostError("a process of an earlier stage does not end on Ray")


def _in_time(limit_s: float, condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds, at most `limit_s` seconds. Returns whether it does. Raises what
    `check_ray` raises."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        check_ray()
        time.sleep(POLL_S)
    return True
