"""Client of AgentGym's own servers, unmodified.

    world = await connect("http://127.0.0.1:36001", AgentGymOptions(), timeout_s=60)

AgentGym's errors are part of answers with status 200, which its own client takes for a score of 0;
here they lose the session. Its calls are not idempotent and sessions have no lease, so no call that
may have reached the server is repeated: an episode that was interrupted is played again. Its
sessions are numbers that count from 0 again after a restart, so that the number of a session may
come to name another one's game: `JsonServer` knows whose each number is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentrl_envs.env import Observation
from agentrl_envs.errors import (
    ContractError,
    OptionError,
    SessionError,
    UnreachableError,
    WorldError,
)
from agentrl_envs.http.received import short
from agentrl_envs.protocols.agentgym_families import FAMILIES, Family, RefusalError
from agentrl_envs.protocols.agentgym_json import JsonServer, Number
from agentrl_envs.protocols.foreign_world import Answer, ForeignWorld
from agentrl_envs.protocols.numbered_tasks import NumberedTasks, parse_ranges
from agentrl_envs.protocols.options import AgentGymOptions

CREATE_S = 600.0
"""Seconds that a session is waited for after its caller gave up, to close it."""


async def connect(url: str, options: AgentGymOptions, *, timeout_s: float) -> ForeignWorld:
    """The world of the server at `url`. Sends no token: AgentGym's servers know none.

    Raises `OptionError` for options that are wrong or missing, `UnreachableError` if nothing
    answers, `WorldError` if it is another kind of server."""
    server = JsonServer(url, timeout_s)
    try:
        family = await _family(server, options.family)
        tasks = _tasks(family, options)
    except (OptionError, WorldError):
        await server.close()
        raise
    instructions = family.instructions if options.instructions is None else options.instructions
    return ForeignWorld(
        tasks, instructions, lambda: AgentGymConnection(server, family), server.close
    )


async def _family(server: JsonServer, name: str | None) -> Family:
    greeting = await server.greeting()
    if name is not None:
        if name not in FAMILIES:
            raise OptionError(f"family: there is no {name!r}; use one of {', '.join(FAMILIES)}")
        expected = FAMILIES[name].greeting
        others = {one.greeting for one in FAMILIES.values() if one.greeting} - {expected}
        if expected and expected not in greeting and any(other in greeting for other in others):
            raise OptionError(f"family: {server.url} says {greeting!r}, which is not {name}")
        return FAMILIES[name]
    for family in FAMILIES.values():
        if family.greeting and family.greeting in greeting:
            return family
    raise OptionError(
        f"family: {server.url} does not say what it is; set it to one of {', '.join(FAMILIES)}"
    )


def _tasks(family: Family, options: AgentGymOptions) -> NumberedTasks:
    given = {"train": options.train or family.train, "heldout": options.heldout or family.heldout}
    for split, text in given.items():
        if text is None:
            raise OptionError(
                f"{split}: {family.name} has no published numbers; give them, such as 0-99"
            )
    ranges = {split: parse_ranges(split, text or "") for split, text in given.items()}
    return NumberedTasks(
        f"agentgym-{family.name}",
        {"train": ranges["train"], "heldout": ranges["heldout"]},
        family.category,
    )


class AgentGymConnection:
    """One session: a number of the server."""

    def __init__(self, server: JsonServer, family: Family) -> None:
        self._server = server
        self._family = family
        self._id: Number | None = None
        self._score = self._raw = 0.0
        self._offered: tuple[str, ...] | None = None

    async def reset(self, number: int) -> Observation:
        family = self._family
        if not self._server.holds(self._id, self):
            self._id = await self._created()
            self._server.take(self._id, self)
        answer = await self._call("reset", {family.number: number, **family.reset})
        if family.opening is None:
            seen = await self._server.get(f"{family.path}/observation", {family.key: self._id})
            text = seen if isinstance(seen, str) else self._field(seen, family.observation, str)
            if "TimeoutError" in (text, self._given(answer)):  # WebArena's page did not load
                await self.close()
                raise SessionError(f"{self._server.url}: POST /reset answered TimeoutError")
        else:
            text = "\n".join(self._field(answer, name, str) for name in family.opening)
        return Observation(text=text, admissible=self._menu(answer))

    async def step(self, text: str) -> Answer:
        family = self._family
        try:
            action = family.read(text)
        except RefusalError as refusal:  # as in AgentGym, a turn that the server does not see
            return self._refused(str(refusal))
        answer = await self._call("step", {"action": action})
        shown = self._field(answer, family.observation, str)
        done = self._field(answer, family.done, bool)
        raw = float(self._field(answer, family.raw, int | float))
        score = family.score(answer)
        solved = score > 0 if family.solved == 0 else score >= family.solved
        self._score, self._raw = score, raw
        ended = done or (family.late_success and solved)
        truncated = bool(answer.get("truncated")) or (
            family.step_limit and ended and not solved and score >= 0
        )
        menu, offered = self._menu(answer), self._offered
        self._offered = menu
        return Answer(
            observation=Observation(text=shown, admissible=() if ended and menu else menu),
            score=score,
            raw_score=raw,
            terminated=ended and not truncated,
            truncated=truncated,
            wellformed=action.lower() in offered
            if offered is not None
            else bool(action) and not any(each in shown for each in family.refusals),
            success=solved and (ended or family.solved > 0),
        )

    async def close(self) -> None:
        identity, self._id = self._id, None
        if self._server.release(identity, self):
            await self._close(identity)

    async def _created(self) -> Number:
        """The number of a new session. If the caller gives up, the session is closed once the
        server has made it: nobody else knows its number, and it would stay for ever."""
        path, server = f"{self._family.path}/create", self._server
        creating = asyncio.create_task(server.post(path, self._family.create, wait_s=CREATE_S))
        wanted = False
        try:
            await asyncio.wait([creating], timeout=server.timeout_s)  # does not cancel it
            wanted = creating.done()
        finally:
            if not wanted:
                server.background.start(self._close_late(creating))
        if not wanted:
            raise UnreachableError(
                f"{server.url}: POST {path} got no answer in {server.timeout_s:g} s; check that it "
                "is running"
            )
        return self._number(creating.result())

    async def _close_late(self, creating: asyncio.Task[Any]) -> None:
        with suppress(WorldError):
            await self._close(self._number(await creating))

    async def _close(self, identity: Any) -> None:
        with suppress(WorldError):  # some servers have no such route, some fail at a second call
            await self._server.post(f"{self._family.path}/close", {self._family.key: identity})

    def _number(self, created: Any) -> Number:
        number = created.get(self._family.key) if isinstance(created, dict) else created
        if not isinstance(number, int | str):
            raise ContractError(
                f"{self._server.url}: POST /create answered {short(created)}, which names no "
                "session; check the family"
            )
        return number

    async def _call(self, path: str, body: Mapping[str, Any]) -> Any:
        """A call of this session. A failure loses it: the server's state is unknown."""
        if path == "reset":
            self._score, self._raw, self._offered = 0.0, 0.0, None
        number = self._id
        try:
            self._check_held(number)
            answer = await self._server.post(
                f"{self._family.path}/{path}", {self._family.key: number, **body}
            )
            self._check_held(number)  # another session may have got the number meanwhile
            if path == "step" and not isinstance(answer, dict):
                raise ContractError(
                    f"{self._server.url}: POST /step answered {short(answer)}, not an object"
                )
        except WorldError:
            await self.close()
            raise
        if path == "reset":
            self._offered = self._menu(answer)
        return answer

    def _check_held(self, number: Number | None) -> None:
        """Raise `SessionError` if the number does not name this session's game any more."""
        if not self._server.holds(number, self):
            raise SessionError(
                f"{self._server.url}: session {number} was closed, or lost when the server was "
                "restarted"
            )

    def _refused(self, text: str) -> Answer:
        return Answer(
            observation=Observation(text=text, admissible=self._offered),
            score=self._score,
            raw_score=self._raw,
            terminated=False,
            wellformed=False,
        )

    def _menu(self, answer: Any) -> tuple[str, ...] | None:
        return self._family.menu(answer) if isinstance(answer, dict) else None

    def _given(self, answer: Any) -> Any:
        return answer.get(self._family.observation) if isinstance(answer, dict) else answer

    def _field(self, answer: Any, name: str, kind: Any) -> Any:
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, kind):
            raise ContractError(
                f"{self._server.url}: {name} of a {self._family.name} answer is {short(value)}; "
                "check the family"
            )
        return value
