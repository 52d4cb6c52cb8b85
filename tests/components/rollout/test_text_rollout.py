"""The environment gets the action of a reply in text, without the thoughts before it."""

import pytest
from corridor_rules import RULES
from listening_session import JOB, ListeningSession

from agentrl_components.rollout.text_rollout import Reply, ReplyRequest, play_text


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
    session, agent = ListeningSession(steps=2), Saying(said)
    episode, _ = await play_text(JOB, RULES, session, agent)
    assert session.actions == [action, action]
    assert [turn.action for turn in episode.turns] == [said, said]
    messages = [message.content for message in agent.requests[1].messages]
    assert messages == ["look", said, "look again"]
