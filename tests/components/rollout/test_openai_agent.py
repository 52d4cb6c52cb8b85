"""What becomes of an episode whose requests an endpoint refuses."""

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrl_components.errors import EngineError, RunError
from agentrl_components.rollout.openai_agent import REPLY_S, OpenAIAgent
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.rollout.text_rollout import Message, ReplyRequest, TextCollector
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending
from agentrl_envs.chat.endpoint import ChatEndpoint
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.run import running
from agentrl_envs.world import LocalWorld

TASKS = CorridorTasks()
SPEC = RunSpec.model_validate(
    {
        "model": {"source": "tiny", "context": 64},
        "rollout": {"actions": "free"},
        "environments": [{"name": "corridor", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 8, "iterations": 1}]},
    }
)
VLLM = {"message": "This model's maximum context length is 4096 tokens.", "code": 400}
OPENAI = {"message": "Please reduce the messages.", "code": "context_length_exceeded"}
LLAMA = {"message": "the request exceeds the available context size", "code": 400}
OTHER = {"message": "temperature must be at most 1", "code": 400}


def unsupported(name, value=None):
    """OpenAI's error for a parameter, or a value of one, that a model does not have."""
    if name == "max_tokens":
        message = f"Unsupported parameter: '{name}' is not supported with this model. "
        message += "Use 'max_completion_tokens' instead."
    elif value is None:
        message = f"Unsupported parameter: '{name}' is not supported with this model."
    else:
        message = f"Unsupported value: '{name}' does not support {value} with this model."
    code = f"unsupported_{'parameter' if value is None else 'value'}"
    return {"message": message, "type": "invalid_request_error", "param": name, "code": code}


class Endpoint:
    """A chat completions API that refuses conversations of more messages than `limit`, and requests
    with parameters that `unknown` has errors for."""

    def __init__(self, limit, error=OTHER, unknown=()):
        self.calls = 0
        self.bodies = []
        """The requests, in order, without their messages."""
        self._limit, self._error = limit, error
        self._unknown = {one["param"]: one for one in unknown}
        self.app = Starlette(
            routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])]
        )

    async def _complete(self, request: Request) -> JSONResponse:
        self.calls += 1
        body = await request.json()
        self.bodies.append({name: value for name, value in body.items() if name != "messages"})
        for name, error in self._unknown.items():
            if name in body:
                return JSONResponse({"error": error}, 400)
        if len(body["messages"]) > self._limit:
            return JSONResponse({"error": self._error}, 400)
        message = {"role": "assistant", "content": "look"}  # no action of the corridor
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
            | {"choices": [choice]}
        )


async def played(endpoint, temperature=1.0):
    """An episode of eight turns at an endpoint."""
    tasks = [DrawnTask("corridor", TASKS.task("heldout", 0))]
    request = CollectRequest(
        tasks=tasks,
        samples=1,
        max_turns=8,
        temperature=temperature,
        iteration=-1,
        purpose="evaluation",
    )
    collector = TextCollector(SPEC, {"corridor": LocalWorld(TASKS)})
    with running(endpoint.app) as url:
        agent = OpenAIAgent(f"{url}/v1", "m", "none")
        try:
            (episode,) = await collector.collect(request, agent)
        finally:
            await agent.close()
    return episode


@pytest.mark.parametrize("error", [VLLM, OPENAI, LLAMA], ids=["vllm", "openai", "llama.cpp"])
async def test_an_episode_that_fills_the_context_of_an_endpoint_ends_there_and_counts(error):
    endpoint = Endpoint(limit=6, error=error)  # instructions, three observations, two replies
    episode = await played(endpoint)
    assert (episode.ending, len(episode.turns)) == (Ending.TRUNCATED, 3)
    assert episode.out_of_tokens
    assert error["message"] in episode.note
    assert endpoint.calls == 4


async def test_a_request_that_is_refused_for_another_reason_ends_the_evaluation_at_once():
    endpoint = Endpoint(limit=0, error=OTHER)
    with pytest.raises(RunError, match=r"^--openai: .* refused a request: .* must be at most 1"):
        await played(endpoint)
    assert endpoint.calls == 1


async def test_a_model_without_max_tokens_gets_its_new_name_in_all_further_requests():
    endpoint = Endpoint(limit=99, unknown=[unsupported("max_tokens")])
    episode = await played(endpoint)
    assert len(episode.turns) == 8
    assert endpoint.calls == 1 + 8
    limits = [(b.get("max_tokens"), b.get("max_completion_tokens")) for b in endpoint.bodies]
    assert (
        limits
        == [(SPEC.rollout.max_tokens_per_turn, None)]
        + [(None, SPEC.rollout.max_tokens_per_turn)] * 8
    )


async def test_parameters_that_a_model_does_not_have_are_left_out_where_they_change_nothing():
    names = ("max_tokens", "top_p", "temperature", "seed")
    endpoint = Endpoint(limit=99, unknown=[unsupported(name) for name in names])
    assert len((await played(endpoint)).turns) == 8
    assert endpoint.calls == 4 + 8
    assert endpoint.bodies[-1].keys() == {"model", "max_completion_tokens"}


async def test_a_temperature_that_a_model_does_not_have_is_an_error_that_names_the_field():
    endpoint = Endpoint(limit=99, unknown=[unsupported("temperature", 0.5)])
    with pytest.raises(
        RunError, match=r"not support 0\.5 .*; set spec\.evaluation\.temperature to 1"
    ):
        await played(endpoint, temperature=0.5)
    assert endpoint.calls == 1


async def test_a_model_without_any_name_for_the_limit_ends_the_evaluation():
    both = [unsupported("max_tokens"), unsupported("max_completion_tokens")]
    endpoint = Endpoint(limit=99, unknown=both)
    with pytest.raises(RunError, match="'max_completion_tokens' is not supported"):
        await played(endpoint)
    assert endpoint.calls == 2


class SlowEndpoint:
    """Never answers."""

    def __init__(self):
        self.calls = 0
        self.app = Starlette(
            routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])]
        )

    async def _complete(self, request: Request) -> JSONResponse:
        self.calls += 1
        while not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return JSONResponse({})


async def test_a_reply_that_takes_too_long_is_asked_for_five_times_and_the_option_is_named():
    endpoint = SlowEndpoint()
    request = ReplyRequest(
        messages=[Message(role="user", content="look")],
        admissible=None,
        seed=1,
        temperature=1.0,
        top_p=1.0,
        max_tokens=4,
    )
    with running(endpoint.app) as url:
        agent = OpenAIAgent(f"{url}/v1", "m", "none", timeout_s=2.0)
        with pytest.raises(EngineError, match=r"no reply within 2 s; .* set --timeout to more"):
            await agent.reply(request)
        await agent.close()
    assert endpoint.calls == 5


async def test_a_host_that_is_gone_is_waited_for_as_long_as_a_connection_takes_not_a_reply():
    async with ChatEndpoint("http://h/v1", "m", "none", timeout_s=REPLY_S).client() as client:
        assert (client.timeout.connect, client.timeout.read) == (60, 600)
    async with ChatEndpoint("http://h/v1", "m", "none", timeout_s=2.0).client() as client:
        assert (client.timeout.connect, client.timeout.read) == (2, 2)
