"""What becomes of an episode whose requests an endpoint refuses."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrl_components.errors import RunError
from agentrl_components.rollout.openai_agent import OpenAIAgent
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.rollout.text_rollout import TextCollector
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending
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


class Endpoint:
    """A chat completions API that refuses conversations of more messages than `limit`."""

    def __init__(self, limit, error):
        self.calls = 0
        self._limit, self._error = limit, error
        self.app = Starlette(
            routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])]
        )

    async def _complete(self, request: Request) -> JSONResponse:
        self.calls += 1
        body = await request.json()
        if len(body["messages"]) > self._limit:
            return JSONResponse({"error": self._error}, 400)
        message = {"role": "assistant", "content": "look"}  # no action of the corridor
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
            | {"choices": [choice]}
        )


async def played(endpoint):
    """An episode of eight turns at an endpoint."""
    tasks = [DrawnTask("corridor", TASKS.task("heldout", 0))]
    request = CollectRequest(
        tasks=tasks, samples=1, max_turns=8, temperature=1.0, iteration=-1, purpose="evaluation"
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
