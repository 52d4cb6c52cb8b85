"""Episodes of agents that reply in text, and those that a log has already."""

import pytest
from corridor_rules import RULES
from listening_session import JOB, ListeningSession

from agentrl_components.errors import EngineError
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.tasks import DrawnTask
from agentrl_components.rollout.text_rollout import (
    MemoryEpisodeLog,
    Reply,
    ReplyRequest,
    TextCollector,
    play_text,
)
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending
from agentrl_envs.environments.corridor import CorridorTasks
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


WENT_ON = (
    "<search>capital of France</search><information>Lyon</information>"
    "<think>So it is Lyon.</think><answer>Lyon</answer>"
)
"""A reply that does not stop at its action, but goes on with an answer and a turn of its own."""


class Saying:
    """An agent that always says the same, and notes the requests."""

    def __init__(self, text: str) -> None:
        self.requests: list[ReplyRequest] = []
        self._text = text

    async def reply(self, request: ReplyRequest) -> Reply:
        self.requests.append(request)
        return Reply(text=self._text)


class Failing:
    """An agent that never replies."""

    async def reply(self, request: ReplyRequest) -> Reply:
        raise EngineError("no answer")


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("go left", "go left"),
        ("<think>\nleft or right\n</think>\n\ngo left", "go left"),
        ("left or right\n</think>\n\ngo left", "go left"),  # the prompt begins the thoughts
        ("<think>\nleft or", ""),
        ("<think>a</think> <think>b</think> go left", "go left"),
        (f"<think>I search.</think>{WENT_ON}", WENT_ON),
        (f"I search.</think>{WENT_ON}", WENT_ON),
        (WENT_ON, WENT_ON),
        ("go left <think>or", "go left <think>or"),
    ],
    ids=[
        "none",
        "whole",
        "begun by the prompt",
        "cut off",
        "two blocks",
        "a reply that goes on",
        "a reply that goes on, begun by the prompt",
        "a later block",
        "a later block that was cut off",
    ],
)
async def test_the_environment_gets_what_follows_the_thoughts_of_a_reply(said, action):
    session, agent = ListeningSession(steps=2), Saying(said)
    episode, _ = await play_text(JOB, RULES, session, agent)
    assert session.actions == [action, action]
    assert [turn.action for turn in episode.turns] == [said, said]
    messages = [message.content for message in agent.requests[1].messages]
    assert messages == ["look", said, "look again"]


def one_task(samples: int, max_turns: int = 1) -> CollectRequest:
    """Episodes of the first held-out corridor."""
    return CollectRequest(
        tasks=[DrawnTask("corridor", TASKS.task("heldout", 0))],
        samples=samples,
        max_turns=max_turns,
        temperature=1.0,
        iteration=-1,
        purpose="evaluation",
    )


async def test_episodes_that_are_in_the_log_are_not_played_again():
    log, agent = MemoryEpisodeLog(), Saying("look")
    collector = TextCollector(SPEC, {"corridor": LocalWorld(TASKS)}, log)
    first = await collector.collect(one_task(samples=2), agent)
    assert len(agent.requests) == 2
    again = await collector.collect(one_task(samples=3), agent)
    assert len(agent.requests) == 3  # the third sample
    assert [one.turns for one in again[:2]] == [one.turns for one in first]
    await collector.collect(one_task(samples=1, max_turns=2), agent)
    assert len(agent.requests) == 5  # with another limit it is another episode, of two turns
    await collector.close()


async def test_a_lost_episode_is_not_added_to_the_log_and_is_played_again():
    log, agent = MemoryEpisodeLog(), Saying("look")
    collector = TextCollector(SPEC, {"corridor": LocalWorld(TASKS)}, log)
    (lost,) = await collector.collect(one_task(samples=1), Failing())
    assert (lost.ending, log.episodes) == (Ending.LOST, {})
    (played,) = await collector.collect(one_task(samples=1), agent)
    assert len(played.turns) == 1
    await collector.close()
