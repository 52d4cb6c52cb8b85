"""Responses that violate the contract, and responses of earlier server versions."""

import asyncio

import pytest
from corridor_server import HURRIED
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Task
from agentrl_envs.errors import ContractError
from agentrl_envs.server.run import running


class FakeServer:
    """A server that responds to every step with `step`, and 503 to its first `busy` requests."""

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
                    "name": "fake", "instructions": "", "vocabulary": None, "train": None,
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


def step_response(**fields) -> dict[str, object]:
    step: dict[str, object] = {
        "observation": {"text": "hi", "admissible": None},
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "wellformed": True,
        "success": False,
        "raw_score": 0.0,
    }
    return {"step": step | fields}


def legacy_step_response(**info) -> dict[str, object]:
    """A step in the format of earlier server versions."""
    step: dict[str, object] = {
        "observation": {"text": "hi", "admissible": ["go"]},
        "reward": 0.5,
        "terminated": False,
        "truncated": False,
        "info": info,
    }
    return {"step": step}


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        (step_response(reward="1"), r"POST /v1/sessions/s/steps: step\.reward is '1'"),
        (step_response(reward=None), r"step\.reward is None"),
        (step_response(reward=7.0), r"step: reward is 7\.0"),
        (step_response(terminated=True, truncated=True), "truncated is True"),
        (step_response(wellformed=None), r"step\.wellformed is None"),
        (step_response(achieved=[7]), r"step\.achieved\.0 is 7"),
        (
            legacy_step_response(success=False, raw_score=0.0),
            r"step\.wellformed is .*field required",
        ),
        (
            step_response(observation={"text": 5, "admissible": None}),
            r"step\.observation\.text is 5",
        ),
        (
            step_response(observation={"text": "x", "admissible": ["a", "a"]}),
            r"observation\.admissible is \('a', 'a'\)",
        ),
        ({"reward": 1.0}, "step"),
        ("text", "the response is"),
    ],
)
async def test_invalid_response_raises_contract_error_with_endpoint_and_value(answer, finding):
    with running(FakeServer(answer).app()) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            session = remote.session()
            await session.reset(Task(id="x-0", category="x", payload={}))
            with pytest.raises(ContractError, match=finding):
                await session.step("hello")


async def test_503_response_is_retried():
    fake = FakeServer(step_response())
    fake.busy = 2
    with running(fake.app()) as url:
        async with RemoteWorld.connected(url) as remote:
            assert remote.name == "fake"


async def test_server_of_an_earlier_version_gets_one_request_per_step():
    info = {"wellformed": True, "success": False, "raw_score": 3.0, "achieved": ["a"]}
    with running(FakeServer(legacy_step_response(**info)).app()) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            assert (remote.description.most_steps, remote.relabels) == (0, False)
            sessions = [remote.session() for _ in range(3)]
            task = Task(id="x-0", category="x", payload={})
            await asyncio.gather(*(session.reset(task) for session in sessions))
            steps = await asyncio.gather(*(session.step("hello") for session in sessions))
            assert [step.observation.text for step in steps] == ["hi"] * 3
            assert [(step.wellformed, step.success, step.raw_score) for step in steps] == [
                (True, False, 3.0)
            ] * 3
            assert (steps[0].achieved, steps[0].state) == (("a",), None)
            assert steps[0].observation.admissible == ("go",)
