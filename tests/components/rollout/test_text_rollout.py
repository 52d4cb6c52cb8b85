"""The environment gets the action of a reply in text, without the thoughts before it."""

import pytest
from corridor_rules import RULES

from agentrl_components.rollout.episode import Job
from agentrl_components.rollout.text_rollout import Reply, ReplyRequest, play_text
from agentrl_envs.env import Observation, Step, Task


class Listening:
    """A session that notes what it is told, and ends after two steps."""

    def __init__(self) -> None:
        self.actions: list[str] = []

    async def reset(self, task: Task) -> Observation:
        del task
        return Observation(text="look")

    async def step(self, action: str) -> Step:
        self.actions.append(action)
        return Step(
            observation=Observation(text="look again"),
            reward=0.0,
            terminated=len(self.actions) == 2,
            truncated=False,
            wellformed=True,
            success=False,
            raw_score=0.0,
        )

    async def close(self) -> None:
        return


class Saying:
    """An agent that always says the same, and notes the requests."""

    def __init__(self, text: str) -> None:
        self.requests: list[ReplyRequest] = []
        self._text = text

    async def reply(self, request: ReplyRequest) -> Reply:
        self.requests.append(request)
        return Reply(text=self._text)


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("go left", "go left"),
        ("<think>\nleft or right\n</think>\n\ngo left", "go left"),
        ("left or right\n</think>\n\ngo left", "go left"),  # the prompt begins the thoughts
        ("<think>\nleft or", ""),
    ],
    ids=["none", "whole", "begun by the prompt", "cut off"],
)
async def test_the_environment_gets_what_follows_the_thoughts_of_a_reply(said, action):
    session, agent = Listening(), Saying(said)
    task = Task(id="t", category="", payload={})
    job = Job(environment="e", instructions="", task=task, group=0, sample=0, iteration=0)
    episode, _ = await play_text(job, RULES, session, agent)
    assert session.actions == [action, action]
    assert [turn.action for turn in episode.turns] == [said, said]
    messages = [message.content for message in agent.requests[1].messages]
    assert messages == ["look", said, "look again"]
