"""Our client plays AgentGym's own servers, and AgentGym's own clients play our server."""

import random

import pytest
from agentgym_servers import client, served

from agentrl_envs.conformance.check import check
from agentrl_envs.environments.babyai import BabyAIOptions, BabyAITasks
from agentrl_envs.environments.textcraft import TextCraftOptions, TextCraftTasks
from agentrl_envs.errors import SessionError, WorldError

from .upstream_servers import client_class, server

pytestmark = pytest.mark.slow

BABYAI = BabyAIOptions(compat="agentgym", text="agentgym")


def test_our_check_passes_agentgyms_babyai():
    with server("babyai") as url, client(url) as tasks:
        report = check(tasks, tasks=1)
    # AgentGym lists actions that it then refuses, and lists others again after the end.
    assert set(report.failed()) <= {"admissible"}, str(report)


def test_our_client_plays_agentgyms_textcraft_alike_in_two_sessions():
    replies = ("Action: inventory", "Action: xyzzy", "Action: get 1 oak logs", "one\ntwo")
    with server("textcraft") as url, client(url) as tasks:
        sessions = [tasks.environment() for _ in range(2)]
        for index in range(3):
            firsts = [each.reset(tasks.task("heldout", index)) for each in sessions]
            assert firsts[0] == firsts[1]
            assert "Goal: craft" in firsts[0].text
            for reply in replies:
                steps = [each.step(reply) for each in sessions]
                assert steps[0] == steps[1]
                assert steps[0].wellformed or reply != replies[0]
                assert not (steps[0].wellformed and reply in (replies[1], replies[3]))
        for each in sessions:
            each.close()


def test_our_client_plays_agentgyms_scienceworld_to_a_wrong_focus_and_keeps_the_raw_score():
    pytest.importorskip("scienceworld")
    with server("sciworld") as url, client(url, train="0-29", heldout="30-39") as tasks:
        session = tasks.environment()
        first = session.reset(tasks.task("train", 0))
        assert first.text.startswith("Your task is to boil")
        assert session.step("Thought: hm.\nAction: xyzzy").wellformed is False
        step = session.step("Thought: hm.\nAction: focus on air")
        session.close()
    assert (step.terminated, step.success, step.raw_score) == (True, False, -100)


def test_an_error_of_agentgyms_server_is_seen():
    with server("babyai") as url, client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        other = tasks.environment()
        other.reset(tasks.task("train", 1))
        session.close()  # the server forgets the session
        with pytest.raises((SessionError, WorldError)):
            session.step("turn left")
        assert other.step("Action: turn left").wellformed


def test_agentgyms_babyai_client_sees_the_observations_of_agentgyms_own_server():
    kind = client_class("babyai", "BabyAIEnvClient")
    with server("babyai") as theirs, served(BabyAITasks(BABYAI)) as ours:
        first, second = kind(theirs, 1), kind(ours, 1)
        draws = random.Random(0)
        for data_idx in range(1800, 1811):
            for one in (first, second):
                one.reset(data_idx)
            assert first.observe() == second.observe()
            for _ in range(12):
                action = draws.choice(("turn left", "move forward", "dance", "check"))
                replies = [one.step(f"Thought: x\nAction: {action}") for one in (first, second)]
                assert replies[0].state == replies[1].state
                assert replies[0].done == replies[1].done
                if replies[0].done:
                    break
        assert second.close() is True


def test_agentgyms_textcraft_client_plays_our_server_to_the_goal():
    kind = client_class("textcraft", "TextCraftEnvClient")
    tasks = TextCraftTasks(TextCraftOptions())
    with served(tasks) as url:
        one = kind(url, 1)
        one.reset(0)
        expected = tasks.environment().reset(tasks.task("train", 0)).text
        assert one.observe() == expected
        answer = one.step("Thought: look.\nAction: inventory")
        assert (answer.reward, answer.done) == (0, False)
        assert one.close() is True


@pytest.mark.parametrize(
    ("module", "name", "reply"),
    [
        ("searchqa", "SearchQAEnvClient", "<answer>right</answer>"),
        ("webarena", "WebarenaEnvClient", "```stop [x]```"),
    ],
)
def test_agentgyms_clients_of_the_other_dialect_play_our_server(module, name, reply):
    kind = client_class(module, name)
    tasks = TextCraftTasks(TextCraftOptions())
    with served(tasks, family=module) as url:
        one = kind(url, 1)
        one.reset(3)
        assert one.observe() == tasks.environment().reset(tasks.task("train", 3)).text
        answer = one.step(reply)
        assert (answer.reward, answer.done) == (0, False)
        assert one.close() is True
