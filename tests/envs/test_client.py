import asyncio
import time
from collections import Counter
from dataclasses import replace

import pytest
from corridor_server import red_left_2, served
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentrl_envs.blocking import BlockingTaskSet
from agentrl_envs.client import RemoteTaskSet
from agentrl_envs.corridor import CorridorEnvironment, CorridorOptions, CorridorTasks
from agentrl_envs.env import Relabels, Step, Task, TaskSet
from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    SessionError,
    TaskError,
    WorldError,
)
from agentrl_envs.faults import Faults, FaultyTaskSet
from agentrl_envs.host import ThreadHost
from agentrl_envs.server import ServerOptions, create_app
from agentrl_envs.serving import running
from agentrl_envs.session import LocalWorld, World
from agentrl_envs.transport import Patience

HURRIED = Patience(call_s=2.0, retry_s=0.3, capacity_s=0.3)


async def test_an_episode_over_http_is_the_episode_in_process():
    with served() as url:
        async with RemoteTaskSet.connected(url) as remote:
            local = LocalWorld(CorridorTasks())
            for world in (remote, local):
                assert isinstance(world, World)
            assert remote.instructions() == local.instructions()
            assert remote.vocabulary() == local.vocabulary()
            assert (remote.size("train"), remote.size("heldout")) == (97, 23)
            task = await remote.task("heldout", 5)
            assert task == await local.task("heldout", 5)
            there, here = remote.session(), local.session()
            assert await there.reset(task) == await here.reset(task)
            for action in ("left", "nonsense", "right", "right"):
                assert await there.step(action) == await here.step(action)
            await there.close()
            await there.close()


async def test_an_index_beyond_the_split_wraps_round():
    with served() as url:
        async with RemoteTaskSet.connected(url) as remote:
            assert await remote.task("heldout", 23 * 7 + 3) == await remote.task("heldout", 3)


async def test_a_session_keeps_its_place_from_episode_to_episode():
    with served(capacity=1) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            session = remote.session()
            for _ in range(3):
                assert (await session.reset(red_left_2())).text.endswith("left 2")
                await session.step("left")
            await session.close()


async def test_sixty_four_clients_hear_their_own_answers_only():
    tasks = CorridorTasks()

    async def episode(world: World, index: int) -> list[str]:
        session = world.session()
        seen = [(await session.reset(await world.task("train", index))).text]
        for action in ("left", "right", "left"):
            seen.append((await session.step(action)).observation.text)
        await session.close()
        return seen

    with served(tasks, capacity=64) as url:
        async with RemoteTaskSet.connected(url) as remote:
            there = await asyncio.gather(*(episode(remote, index) for index in range(64)))
    here = [await episode(LocalWorld(tasks), index) for index in range(64)]
    assert there == here


async def test_a_full_server_is_waited_for():
    with served(capacity=1) as url:
        async with RemoteTaskSet.connected(url, patience=Patience(capacity_s=10)) as remote:
            first, second = remote.session(), remote.session()
            await first.reset(red_left_2())
            waiting = asyncio.create_task(second.reset(red_left_2()))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await first.close()
            assert (await waiting).text.endswith("left 2")
            await second.close()


async def test_a_server_that_stays_full_is_a_capacity_error_that_says_how_long_was_waited():
    with served(capacity=1) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            first = remote.session()
            await first.reset(red_left_2())
            with pytest.raises(CapacityError, match=r"all 1 sessions are taken; waited 0\.3 s"):
                await remote.session().reset(red_left_2())


async def test_a_session_that_ran_out_of_time_is_a_session_error_and_can_be_reset():
    with served(ttl_s=0.05) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            await asyncio.sleep(0.3)
            with pytest.raises(SessionError, match="is not open"):
                await session.step("left")
            assert (await session.reset(red_left_2())).text.endswith("left 2")
            await session.close()


async def test_a_session_lost_by_its_environment_is_a_session_error():
    with served(FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match="on purpose"):
                await session.step("left")
            with pytest.raises(SessionError, match="reset it"):
                await session.step("left")


async def test_a_step_before_any_reset_is_a_session_error():
    with served() as url:
        async with RemoteTaskSet.connected(url) as remote:
            with pytest.raises(SessionError, match="no task is set up"):
                await remote.session().step("left")


async def test_a_task_that_is_not_the_servers_is_a_task_error():
    with served() as url:
        async with RemoteTaskSet.connected(url) as remote:
            with pytest.raises(TaskError, match=r"payload\.cells"):
                await remote.session().reset(Task(id="x-0", category="x", payload={}))


async def test_an_unreachable_server_is_a_session_error_that_names_the_url():
    began = time.monotonic()
    with pytest.raises(SessionError, match=r"http://127\.0\.0\.1:9: .*cannot reach the server"):
        await RemoteTaskSet.connect("http://127.0.0.1:9", patience=HURRIED)
    assert time.monotonic() - began < 2


async def test_what_is_not_a_url_is_told_so():
    with pytest.raises(WorldError, match="nonsense"):
        await RemoteTaskSet.connect("nonsense", patience=HURRIED)


async def test_a_wrong_token_is_not_tried_again():
    with served(token=SecretStr("sesame")) as url:
        began = time.monotonic()
        with pytest.raises(WorldError, match="is the token right") as caught:
            await RemoteTaskSet.connect(url, token="wrong", patience=Patience(retry_s=30))
        assert not isinstance(caught.value, SessionError)
        assert time.monotonic() - began < 2
        async with RemoteTaskSet.connected(url, token="sesame") as remote:
            assert remote.name == "corridor"


async def test_another_kind_of_server_is_told_from_an_environment_server():
    async def page(request: Request) -> Response:
        return PlainTextResponse("hello", status_code=404)

    told = pytest.raises(WorldError, match="answered 404, not as an environment server does")
    with running(Starlette(routes=[Route("/v1/environment", page)])) as url, told:
        await RemoteTaskSet.connect(url, patience=HURRIED)


async def test_servers_of_different_tasks_are_not_taken_for_one_world():
    class Others(CorridorTasks):
        def task(self, split, index):
            return super().task(split, index + 1)

    told = pytest.raises(WorldError, match="give servers of one version and the same options")
    with served() as one, served(Others()) as other, told:
        await RemoteTaskSet.connect(one, other)


async def test_sessions_spread_over_servers_and_pass_over_the_full_one():
    with served(capacity=1) as small, served(capacity=2) as large:
        async with RemoteTaskSet.connected(small, large, patience=HURRIED) as remote:
            sessions = [remote.session() for _ in range(3)]
            for session in sessions:
                await session.reset(red_left_2())
            for session in sessions:
                assert (await session.step("left")).info["wellformed"]
            with pytest.raises(CapacityError):
                await remote.session().reset(red_left_2())
            for session in sessions:
                await session.close()


class Liar:
    """A server that answers as it likes."""

    def __init__(self, step: object) -> None:
        self.step = step
        self.busy = 0

    def app(self) -> Starlette:
        async def environment(request: Request) -> Response:
            if self.busy > 0:
                self.busy -= 1
                return PlainTextResponse("starting", status_code=503)
            return JSONResponse(
                {
                    "name": "liar", "instructions": "", "vocabulary": None, "train": None,
                    "heldout": None, "capacity": 1, "ttl_s": 1.0, "version": "1",
                    "tasks_hash": "0",
                }
            )  # fmt: skip

        async def opened(request: Request) -> Response:
            seen = {"text": "hello", "admissible": None}
            return JSONResponse({"id": "s", "ttl_s": 1.0, "observation": seen})

        async def stepped(request: Request) -> Response:
            return JSONResponse(self.step)

        return Starlette(
            routes=[
                Route("/v1/environment", environment),
                Route("/v1/sessions", opened, methods=["POST"]),
                Route("/v1/sessions/s/steps", stepped, methods=["POST"]),
            ]
        )


def said(**fields) -> dict[str, object]:
    step: dict[str, object] = {
        "observation": {"text": "hi", "admissible": None},
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "info": {"wellformed": True, "success": False, "raw_score": 0.0},
    }
    return {"step": step | fields}


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        (said(reward="1"), r"POST /v1/sessions/s/steps: step\.reward is '1'"),
        (said(reward=None), r"step\.reward is None"),
        (said(reward=7.0), r"step: reward is 7\.0"),
        (said(terminated=True, truncated=True), "truncated is True"),
        (said(info={"success": False, "raw_score": 0.0}), r"info\.wellformed is None"),
        (said(observation={"text": 5, "admissible": None}), r"step\.observation\.text is 5"),
        (
            said(observation={"text": "x", "admissible": ["a", "a"]}),
            r"observation\.admissible is \('a', 'a'\)",
        ),
        ({"reward": 1.0}, "step"),
        ("text", "the answer is"),
    ],
)
async def test_a_lie_is_a_contract_error_that_names_call_and_value(answer, finding):
    with running(Liar(answer).app()) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            session = remote.session()
            await session.reset(Task(id="x-0", category="x", payload={}))
            with pytest.raises(ContractError, match=finding):
                await session.step("hello")


async def test_a_proxy_that_says_503_is_asked_again():
    liar = Liar(said())
    liar.busy = 2
    with running(liar.app()) as url:
        async with RemoteTaskSet.connected(url) as remote:
            assert remote.name == "liar"


def test_a_remote_world_can_be_used_without_async():
    with served(CorridorTasks(CorridorOptions(turns=9))) as url, BlockingTaskSet(url) as tasks:
        assert isinstance(tasks, TaskSet)
        environment = tasks.environment()
        assert environment.reset(red_left_2()).text.endswith("left 2")
        assert environment.step("left").observation.text.endswith("left 1")
        environment.close()


class Rewriting(CorridorTasks):
    """A corridor whose goals can be rewritten."""

    def relabel(self, observation: str, goal: str, /) -> str:
        if not observation.startswith("corridor"):
            raise TaskError(f"observation: {observation!r} is not a first one")
        return f"{observation} ; {goal}"


async def test_goals_are_rewritten_over_http_as_in_process():
    openings = [(f"corridor {n}", f"reach {n}") for n in range(150)]
    with served(Rewriting()) as url:
        async with RemoteTaskSet.connected(url) as remote:
            local = LocalWorld(Rewriting())
            assert remote.relabels
            assert local.relabels
            there = await remote.relabel(openings)
            assert there == await local.relabel(openings)
            assert there[149] == "corridor 149 ; reach 149"
            with pytest.raises(TaskError, match=r"openings\.1: observation: 'x' is not"):
                await remote.relabel([("corridor", "a"), ("x", "b")])


async def test_a_world_that_rewrites_no_goals_says_so():
    with served() as url:
        async with RemoteTaskSet.connected(url) as remote:
            for world in (remote, LocalWorld(CorridorTasks())):
                assert not world.relabels
                with pytest.raises(TaskError, match="goals cannot be rewritten"):
                    await world.relabel([("corridor", "a")])


async def test_a_blocking_task_set_rewrites_goals_where_its_server_does():
    def play() -> list[bool]:
        found = []
        for tasks in (Rewriting(), CorridorTasks()):
            with served(tasks) as url, BlockingTaskSet(url) as remote:
                found.append(isinstance(remote, Relabels))
                if isinstance(remote, Relabels):
                    assert remote.relabel("corridor", "a") == "corridor ; a"
        return found

    assert await asyncio.to_thread(play) == [True, False]


async def test_steps_that_are_asked_at_once_travel_in_one_request():
    requests: Counter[str] = Counter()
    app = create_app(CorridorTasks(), ThreadHost(CorridorTasks()), ServerOptions(token="t"))

    async def counting(scope, receive, send):
        requests[scope.get("path", "")] += 1
        await app(scope, receive, send)

    with running(counting) as url:
        async with RemoteTaskSet.connected(url, token="t") as remote:
            sessions = [remote.session() for _ in range(40)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            for _ in range(3):
                steps = await asyncio.gather(*(session.step("left") for session in sessions))
                assert len({step.observation.text for step in steps}) == 1
    assert requests["/v1/steps"] == 3
    assert not [path for path in requests if path.endswith("/steps") and path != "/v1/steps"]


class Slow(CorridorTasks):
    """The sessions that are told to wait do, before each step."""

    def environment(self):
        class Waiting(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if action == "wait":
                    time.sleep(0.5)
                return super().step(action)

        return Waiting()


async def test_a_slow_step_holds_up_none_that_travels_with_it():
    with served(Slow()) as url:
        async with RemoteTaskSet.connected(url) as remote:
            slow, quick = remote.session(), remote.session()
            await asyncio.gather(slow.reset(red_left_2()), quick.reset(red_left_2()))
            late = asyncio.create_task(slow.step("wait"))
            assert (await quick.step("left")).observation.text.endswith("left 1")
            assert not late.done()
            assert (await late).info["wellformed"] is False


async def test_a_step_is_waited_for_as_long_as_the_manifest_says_and_no_longer():
    """`environments[].timeoutS`. Upstream waits 2,400 s, whatever it is told."""
    with served(Slow()) as url:
        async with RemoteTaskSet.connected(url, patience=Patience(call_s=0.1)) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match=r"got no answer in 0\.1 s"):
                await session.step("wait")


async def test_what_happens_to_one_step_does_not_touch_those_that_travel_with_it():
    class Touchy(CorridorTasks):
        def environment(self):
            class Mined(CorridorEnvironment):
                def step(self, action: str) -> Step:
                    if action == "mine":
                        raise KeyError(action)
                    step = super().step(action)
                    return replace(step, reward=7.0) if action == "lie" else step

            return Mined()

    with served(Touchy()) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            sessions = [remote.session() for _ in range(4)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            actions = ("left", "mine", "lie", "left")
            fell = await asyncio.gather(
                *(s.step(action) for s, action in zip(sessions, actions, strict=True)),
                return_exceptions=True,
            )
            assert [type(each) for each in fell] == [Step, SessionError, ContractError, Step]
            assert "KeyError: 'mine'" in str(fell[1])
            assert "reward is 7.0" in str(fell[2])
            with pytest.raises(SessionError, match="reset it"):
                await sessions[1].step("left")


async def test_steps_whose_answers_stay_away_are_asked_for_again_alone_and_taken_once():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadHost(tasks), ServerOptions())
    cut: list[str] = []

    async def cutting(scope, receive, send):
        """Takes the steps, and answers no lines, the first time."""

        async def headless(message):
            if message["type"] == "http.response.start":
                await send(message)
            elif not message["more_body"]:
                cut.append(scope["path"])
                await send(message)

        together = scope["type"] == "http" and scope["path"] == "/v1/steps"
        await app(scope, receive, headless if together and not cut else send)

    with running(cutting) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            sessions = [remote.session() for _ in range(3)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            for action, expected in (("left", "left 1"), ("right", "left 2")):
                steps = await asyncio.gather(*(session.step(action) for session in sessions))
                assert [step.observation.text.endswith(expected) for step in steps] == [True] * 3
    assert cut == ["/v1/steps"]


async def test_a_server_of_before_takes_each_step_alone():
    with running(Liar(said()).app()) as url:
        async with RemoteTaskSet.connected(url, patience=HURRIED) as remote:
            assert (remote.served.most_steps, remote.relabels) == (0, False)
            sessions = [remote.session() for _ in range(3)]
            task = Task(id="x-0", category="x", payload={})
            await asyncio.gather(*(session.reset(task) for session in sessions))
            steps = await asyncio.gather(*(session.step("hello") for session in sessions))
            assert [step.observation.text for step in steps] == ["hi"] * 3


async def test_steps_under_way_when_a_world_is_closed_are_lost_and_say_so():
    with served(Slow()) as url:
        remote = await RemoteTaskSet.connect(url)
        sessions = [remote.session() for _ in range(2)]
        await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
        steps = [asyncio.create_task(session.step("wait")) for session in sessions]
        await asyncio.sleep(0.1)
        await remote.close()
        for step in steps:
            with pytest.raises(SessionError, match="were closed meanwhile"):
                await step
