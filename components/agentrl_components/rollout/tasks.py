"""Which tasks an iteration plays: a pure function of the iteration."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from agentrl_components.errors import RunError
from agentrl_components.spec import Environment
from agentrl_envs.env import Split, Task
from agentrl_envs.errors import CapacityError, SessionError
from agentrl_envs.world import World

REDRAWS = 8
"""How often tasks that could not be drawn are drawn again. A draw waits 15 s for a server that
cannot be reached, so this takes about as long as an episode's retries and replays: three minutes.
"""
PAUSE_S = 1.0
"""Seconds before tasks are drawn again; doubled before each further time, up to 8 s."""
PROBE_S = 5.0
"""Seconds that a run waits for environments that are down, before each iteration."""


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A task and the environment it belongs to."""

    environment: str
    task: Task


class TaskSource:
    """Draws tasks from all environments, in proportion to their weights."""

    def __init__(
        self,
        environments: Sequence[Environment],
        worlds: Mapping[str, World],
        probe_s: float = PROBE_S,
    ) -> None:
        """`probe_s` is as `PROBE_S`."""
        self._environments = environments
        self._worlds = worlds
        self._probe_s = probe_s
        self._probes: dict[str, asyncio.Task[bool]] = {}
        """Those under way, and those whose answer came too late for `probe`, by environment."""
        self.down: dict[str, str] = {}
        """Environments that do not answer, by name, with their last error. Their tasks are shared
        out among the others."""
        self._dealt_no_tasks: deque[tuple[str, str]] = deque()

    async def draw(
        self, split: Split, count: int, batch: int = 0, refills: int = 0
    ) -> list[DrawnTask]:
        """`count` tasks of a split: the batch-th consecutive slice of each environment's stream.
        Batches do not overlap until a finite stream starts over, or an environment is down. An
        environment that cannot deal is down, unless no other is up; then this raises
        `SessionError`. Raises `RunError` if all are down.

        With `refills` (`algorithm.refillRounds`) the batches of an iteration follow each other: the
        one that is always played, and those that are drawn from only if groups lack a learning
        signal. Which tasks of a finite split they have says `refilled_indices`."""
        weights = [e.weight for e in self._environments]
        up = [0.0 if e.name in self.down else e.weight for e in self._environments]
        if not any(up):
            raise RunError(self._all_down())
        drawn = []
        for environment, share, taken in zip(
            self._environments, shares(weights, count), shares(up, count), strict=True
        ):
            world = self._worlds[environment.name]
            if split == "heldout":
                share = min(share, world.size("heldout") or share)
                taken = min(taken, world.size("heldout") or taken)
            try:
                size = world.size(split) if refills else None
                if size is None:
                    indices: Sequence[int] = range(batch * share, batch * share + taken)
                else:
                    number, attempt = divmod(batch, refills + 1)
                    indices = refilled_indices(number, attempt, refills, share, taken, size)
                for i in indices:
                    drawn.append(DrawnTask(environment.name, await world.task(split, i)))
            except SessionError as error:
                if sum(weight > 0 for weight in up) == 1:
                    raise
                if environment.name not in self.down:  # as another draw may have found meanwhile
                    self._dealt_no_tasks.append((environment.name, str(error)))
                self.down[environment.name] = str(error)
                return await self.draw(split, count, batch, refills)
        return drawn

    def dealt_no_tasks(self) -> list[tuple[str, str]]:
        """The environments that `draw` found to be down since the last call, in order, each with
        its error. May be called on any thread."""
        found = []
        while self._dealt_no_tasks:
            found.append(self._dealt_no_tasks.popleft())
        return found

    async def probe(self) -> list[str]:
        """The environments that were down and answer again; they are no longer down. All are tried
        at the same time. One that takes longer than `probe_s` may take its time: it is among those
        that a later call returns."""
        for name in self.down:
            known = self._probes.get(name)
            if known is None or (known.done() and not known.result()):
                self._probes[name] = asyncio.create_task(_answers(self._worlds[name]))
        if self._probes:
            await asyncio.wait(self._probes.values(), timeout=self._probe_s)
        ended = sorted(name for name, probe in self._probes.items() if probe.done())
        back = [name for name in ended if self._probes.pop(name).result()]
        for name in back:
            del self.down[name]
        return back

    async def close(self) -> None:
        """End the probes that are under way."""
        probes = self._probes.values()
        for probe in probes:
            probe.cancel()
        if probes:
            # A session that was being opened is closed on its server, if that answers soon.
            await asyncio.wait(probes, timeout=self._probe_s)
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _all_down(self) -> str:
        """The message of an error: no environment is left."""
        errors = "; ".join(f"{name}: {self.down[name]}" for name in sorted(self.down))
        return (
            f"spec.environments: all environments are down ({errors}); run the same command again "
            "when one of them answers: the run goes on from its last checkpoint"
        )


async def _answers(world: World) -> bool:
    session = world.session()
    try:
        await session.reset(await world.task("train", 0))
    except (SessionError, CapacityError):
        return False
    finally:
        await session.close()
    return True


def refilled_indices(
    number: int, attempt: int, refills: int, share: int, taken: int, size: int
) -> list[int]:
    """The indices (modulo `size`) of the tasks that an iteration may play of a split of `size`
    tasks.

    Consecutive slices of one stream would leave out tasks for ever: of most batches only the first
    few tasks are played, or none, and a finite stream starts over at the same places. Therefore the
    first batches of all iterations follow each other without gaps, as without refills, and the
    further batches of an iteration run ahead of it at equal distances.

    Args:
        number: iteration, from 0.
        attempt: batch of the iteration, from 0 to `refills`.
        refills: `algorithm.refillRounds`.
        share: tasks of the environment in a batch while all environments are up.
        taken: tasks of the environment in this batch.
    """
    first = number * share
    if not attempt:
        return list(range(first, first + taken))
    ahead = attempt * max(share, size // (refills + 1))
    # A refill plays the first tasks of its batch: others each time the split starts over.
    turn = first // size
    return [first + ahead + (i + turn) % taken for i in range(taken)]


def in_place_of_others(drawn: Sequence[DrawnTask], useful: Counter[str]) -> list[DrawnTask]:
    """The tasks of the batch `drawn` that replace groups without a learning signal. `useful`: the
    number of groups with one, by environment. Together with them, the result has the shares of the
    environments that `drawn` has."""
    lacking = Counter(one.environment for one in drawn)
    wanted = lacking.total() - useful.total()
    lacking -= useful  # an environment may have more than its share: one that was up is down now
    taken = dict(zip(lacking, shares([*lacking.values()], wanted), strict=True))
    out = []
    for one in drawn:
        if taken.get(one.environment, 0) > 0:
            taken[one.environment] -= 1
            out.append(one)
    return out


def drawn_patiently(
    draw: Callable[[], Sequence[DrawnTask]], note: Callable[[str], None], pause_s: float = PAUSE_S
) -> Sequence[DrawnTask]:
    """What `draw` returns. After a `SessionError` it is called again, up to `REDRAWS` times, so
    that a server may restart; the last error is raised. `note` is called with a message each time.
    `pause_s` is as `PAUSE_S`."""

    def tell(state: RetryCallState) -> None:
        assert state.outcome is not None  # it is called after a call that failed
        note(f"drawing tasks again: {state.outcome.exception()}")

    patiently = Retrying(
        retry=retry_if_exception_type(SessionError),
        stop=stop_after_attempt(REDRAWS + 1),
        wait=wait_exponential(multiplier=pause_s, max=8 * pause_s),
        before_sleep=tell,
        reraise=True,
    )
    return patiently(draw)


class TaskPrefetcher:
    """Training tasks. Those that the next iteration plays first are drawn ahead of time, on a
    thread, while workers play the current batch."""

    def __init__(
        self,
        draw: Callable[[Split, int, int], Sequence[DrawnTask]],
        count: int,
        note: Callable[[str], None],
        pause_s: float = PAUSE_S,
        refills: int = 0,
    ) -> None:
        """`draw(split, count, batch)` draws tasks and may be called on any thread. `note` and
        `pause_s` are as in `drawn_patiently`. `refills` as in `TaskSource.draw`: an iteration has
        one batch more, of which only the first is always played."""
        self._draw, self._count = draw, count
        self._batches = refills + 1
        self._note, self._pause_s = note, pause_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tasks")
        self._ahead: dict[int, Future[Sequence[DrawnTask]]] = {}
        """What is drawn ahead of time, by batch: at most one."""

    def take(self, batch: int) -> Sequence[DrawnTask]:
        """The tasks of `batch`. Starts to draw the first batch of the next iteration, unless that
        was done with an earlier batch of this one. Raises `SessionError` if they cannot be drawn,
        now that they are needed, for as long as `drawn_patiently` tries."""

        def drawn() -> Sequence[DrawnTask]:
            # A draw ahead of time that failed is not kept: the server may be back.
            drawing = self._ahead.pop(batch, None) or self._start(batch)
            return drawing.result()

        tasks = drawn_patiently(drawn, self._note, self._pause_s)
        following = (batch // self._batches + 1) * self._batches
        if following not in self._ahead:
            self._ahead = {following: self._start(following)}
        return tasks

    def discard(self) -> None:
        """Draw anew what was drawn ahead of time: environments went down or came back."""
        self._ahead = {}

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _start(self, batch: int) -> Future[Sequence[DrawnTask]]:
        return self._thread.submit(self._draw, "train", self._count, batch)


def shares(weights: Sequence[float], count: int) -> list[int]:
    """`count` split in proportion to `weights`, by largest remainders; ties go to the earlier."""
    total = sum(weights)
    exact = [count * w / total for w in weights]
    out = [int(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda i: (out[i] - exact[i], i))
    for i in order[: count - sum(out)]:
        out[i] += 1
    return out
