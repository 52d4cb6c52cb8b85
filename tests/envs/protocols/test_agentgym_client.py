import asyncio
import threading
from contextlib import ExitStack

import pytest
from agentgym_servers import client, scripted
from free_ports import silent_port
from starlette.responses import Response

from agentrl_envs.errors import (
    ContractError,
    OptionError,
    SessionError,
    TaskError,
    UnreachableError,
    WorldError,
)
from agentrl_envs.protocols.agentgym_client import connect
from agentrl_envs.protocols.agentgym_families import FAMILIES, ONE_ACTION
from agentrl_envs.protocols.options import AgentGymOptions

MENU = '\nAvailable actions: ["turn left", "go to red ball 1"]'
FIRST = "Your goal: go to the red ball" + MENU


def babyai(step):
    """A BabyAI server whose answers to steps are `step`."""
    return {
        "/create": lambda body: {"id": 7},
        "/reset": lambda body: {"observation": FIRST, "reward": 0, "score": 0, "done": False},
        "/step": step,
        "/close": lambda body: True,
    }


def answer(text="You moved." + MENU, reward=0.0, done=False, **more):
    return {"observation": text, "reward": reward, "score": reward, "done": done} | more


def test_calls_come_in_agentgyms_order_and_the_reply_is_sent_as_its_client_does():
    with scripted("This is environment BabyAI.", babyai(lambda body: answer())) as (url, calls):
        with client(url) as tasks:
            assert (tasks.name, tasks.size("train"), tasks.size("heldout")) == (
                "agentgym-babyai",
                810,
                90,
            )
            session = tasks.environment()
            task = tasks.task("heldout", 0)
            assert (task.payload, task.category) == ({"number": 1800}, "level-1")
            assert session.reset(task).admissible == ("turn left", "go to red ball 1")
            step = session.step("Thought: go.\n\nAction: go to <red ball> 1!")
            session.close()
        assert calls == [
            ("/", {}),
            ("/create", {}),
            ("/reset", {"id": 7, "data_idx": 1800}),
            ("/step", {"id": 7, "action": "go to red ball 1"}),
            ("/close", {"id": 7}),
        ]
    assert (step.wellformed, step.reward, step.terminated) == (True, 0.0, False)


def test_a_session_is_created_once_and_reset_for_every_task():
    with scripted("BabyAI", babyai(lambda body: answer())) as (url, calls), client(url) as tasks:
        session = tasks.environment()
        for index in range(3):
            session.reset(tasks.task("train", index))
        assert [path for path, _ in calls] == ["/", "/create", "/reset", "/reset", "/reset"]


def test_upstreams_client_takes_an_error_in_a_200_answer_for_a_score_of_0_and_here_it_is_lost():
    script = babyai(lambda body: {"error": "The task with environment 7 has finished."})
    with scripted("BabyAI", script) as (url, calls), client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        with pytest.raises(SessionError, match="answered the error 'The task with environment 7"):
            session.step("turn left")
        with pytest.raises(SessionError, match="reset it"):
            session.step("turn left")
        session.reset(tasks.task("train", 0))
        assert [path for path, _ in calls].count("/create") == 2


@pytest.mark.parametrize("path", ["/create", "/reset"])
def test_an_error_hidden_before_the_first_step_loses_the_session_too(path):
    script = babyai(lambda body: answer()) | {path: lambda body: {"error": "0"}}
    with (
        scripted("BabyAI", script) as (url, _),
        client(url) as tasks,
        pytest.raises(SessionError, match=f"POST {path} answered the error '0'"),
    ):
        tasks.environment().reset(tasks.task("train", 0))


def test_a_late_success_that_upstream_revokes_ends_the_episode_and_counts():
    late = answer("\n The task is completed." + MENU, reward=0.3, done=False)
    with scripted("BabyAI", babyai(lambda body: late)) as (url, _), client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        step = session.step("go to red ball 1")
    assert (step.reward, step.success, step.terminated) == (0.3, True, True)


def test_upstream_adds_the_reward_again_for_every_invalid_action_and_here_it_counts_once():
    scores = iter([0.325, 0.65, 0.975, 1.3])

    def step(body):
        return answer(reward=0.325) | {"score": next(scores)}

    with scripted("BabyAI", babyai(step)) as (url, _), client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        total = session.step("go to red ball 1").reward
        with pytest.raises(SessionError):
            session.step("nonsense")
    assert total == 0.325


def test_two_actions_are_answered_as_by_agentgyms_client_without_a_call():
    with scripted("BabyAI", babyai(lambda body: answer())) as (url, calls), client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        step = session.step("Action: turn left\nAction: turn left")
        assert (step.observation.text, step.wellformed) == (ONE_ACTION, False)
        assert "/step" not in [path for path, _ in calls]


def sciworld(*steps):
    answers = iter(steps)
    return {
        "/create": lambda body: {"id": 0},
        "/reset": lambda body: (
            {
                "task_description": "Boil water.",
                "observation": "This is the kitchen.",
                **answer(),
                "score": 0,
            }
            | {"observation": "This is the kitchen."}
        ),
        "/step": lambda body: next(answers),
        "/close": lambda body: Response("already closed", 500),
    }


def test_upstreams_score_of_a_science_world_is_100_or_minus_100_and_here_it_is_in_0_to_1():
    steps = (answer(reward=8) | {"score": 8}, answer(reward=-108, done=True) | {"score": -100})
    with (
        scripted("This is environment ScienceWorld.", sciworld(*steps)) as (url, _),
        client(url, train="0-9", heldout="10-12") as tasks,
    ):
        session = tasks.environment()
        assert session.reset(tasks.task("train", 0)).text == "Boil water.\nThis is the kitchen."
        first, second = session.step("Action: open door"), session.step("Action: focus on door")
        session.close()
    assert (first.reward, first.raw_score) == (0.08, 8)
    assert (second.reward, second.raw_score, second.success) == (-0.08, -100, False)
    assert (second.terminated, second.truncated) == (True, False)


def test_the_step_limit_of_a_science_world_truncates_and_a_full_score_is_a_success():
    limit = answer(reward=0, done=True) | {"score": 40}
    full = answer(reward=100, done=True) | {"score": 100}
    for given, expected in ((limit, (0.4, False, True)), (full, (1.0, True, False))):
        with (
            scripted("ScienceWorld", sciworld(given)) as (url, _),
            client(url, train="0-9", heldout="10-12") as tasks,
        ):
            session = tasks.environment()
            session.reset(tasks.task("train", 0))
            step = session.step("Action: wait")
        assert (step.reward, step.success, step.truncated) == expected


def searchqa(step):
    return {
        "/create": lambda body: 3,
        "/reset": lambda body: "prompt",
        "/observation": lambda body: f"Question for {body['env_idx']}",
        "/step": step,
        "/close": lambda body: True,
    }


def test_the_other_dialect_fetches_the_observation_and_sends_the_whole_reply():
    step = answer("<information>Doc 1</information>", info=None)
    with (
        scripted("", searchqa(lambda body: step)) as (url, calls),
        client(url, family="searchqa", train="0-9", heldout="10-12") as tasks,
    ):
        session = tasks.environment()
        assert session.reset(tasks.task("train", 4)).text == "Question for 3"
        assert session.step("<search>a\nb</search>").wellformed
        assert [body for _, body in calls[1:]] == [
            {"id": 0},
            {"env_idx": 3, "id": 4},
            {"env_idx": "3"},
            {"env_idx": 3, "action": "<search>a\nb</search>"},
        ]


def test_an_internal_error_of_the_other_dialect_loses_the_session():
    with (
        scripted("", searchqa(lambda body: Response("Internal Server Error", 500))) as (url, _),
        client(url, family="searchqa", train="0-9", heldout="10-12") as tasks,
    ):
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        with pytest.raises(SessionError, match="answered 500: 'Internal Server Error'"):
            session.step("<search>a</search>")


def webarena(step, seen="OBSERVATION:\n[1] root"):
    return {
        "/create": lambda body: {"env_idx": 5},
        "/reset": lambda body: {"observation": seen, "sites": [], "object": "o"},
        "/observation": lambda body: seen,
        "/step": lambda body: step,
        "/close": lambda body: True,
    }


def test_a_webarena_page_that_does_not_load_is_lost_and_not_played():
    with (
        scripted("", webarena({}, seen="TimeoutError")) as (url, _),
        client(url, family="webarena", train="0-9", heldout="10-12") as tasks,
        pytest.raises(SessionError, match="TimeoutError"),
    ):
        tasks.environment().reset(tasks.task("train", 0))


def test_a_webarena_reward_counts_at_the_end_only_and_a_reply_needs_a_fence():
    step = {"observation": "page", "reward": 1.0, "terminated": False, "truncated": False}
    with (
        scripted("", webarena(step)) as (url, calls),
        client(url, family="webarena", train="0-9", heldout="10-12") as tasks,
    ):
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        assert session.step("click [3]").wellformed is False
        assert session.step("```click [3]```").reward == 0.0
        assert calls[-1][1] == {"env_idx": 5, "action": "```click [3]```"}


def test_an_alfworld_server_lists_the_actions_and_has_no_close_route():
    script = {
        "/create": lambda body: {"id": 0},
        "/reset": lambda body: {"observation": "A room.", "available_actions": ["look", "look"]},
        "/step": lambda body: answer(reward=1, done=True) | {"available_actions": ["look"]},
    }
    with (
        scripted("This is environment AlfWorld.", script) as (url, calls),
        client(url, train="0-9", heldout="10-12") as tasks,
    ):
        session = tasks.environment()
        assert session.reset(tasks.task("train", 0)).admissible == ("look",)
        step = session.step("Thought: hm.\nAction: look")
        session.close()
    assert (step.success, step.reward, calls[2][1]) == (
        True,
        1.0,
        {"id": 0, "game": 0, "world_type": "Text"},
    )


@pytest.mark.parametrize(
    ("greeting", "options", "message"),
    [
        ("Hello.", {}, r"family: .* does not say what it is; set it to one of babyai"),
        ("This is environment BabyAI.", {"family": "babyface"}, "there is no 'babyface'"),
        ("This is environment BabyAI.", {"family": "textcraft"}, "which is not textcraft"),
        ("This is environment ScienceWorld.", {}, "train: sciworld has no published numbers"),
        ("BabyAI", {"train": "0-9", "heldout": "9-12"}, "heldout: 9 is in two ranges"),
        ("BabyAI", {"train": "ten"}, "'ten' is not a list of ranges"),
        ("BabyAI", {"train": "9-1"}, "9-1 is not a range"),
        ("BabyAI", {"trains": "1"}, "protocol agentgym has no such option"),
    ],
)
def test_a_wrong_option_is_refused_with_reason_and_fix(greeting, options, message):
    with scripted(greeting, {}) as (url, _), pytest.raises(OptionError, match=message):
        client(url, **options)


def test_a_server_that_is_down_is_unreachable_and_one_of_another_kind_is_named():
    told = pytest.raises(UnreachableError, match="check that it is running")
    with silent_port() as port, told:
        client(f"http://127.0.0.1:{port}")
    with (
        scripted("BabyAI", {}) as (url, _),
        client(url) as tasks,
        pytest.raises(WorldError, match=r"answered 404.*check the URL and the family"),
    ):
        tasks.environment().reset(tasks.task("train", 0))


def test_an_answer_of_another_family_is_a_violation_and_names_the_field():
    script = babyai(lambda body: {"state": "x", "reward": 0, "done": False})
    with scripted("BabyAI", script) as (url, _), client(url) as tasks:
        session = tasks.environment()
        session.reset(tasks.task("train", 0))
        with pytest.raises(ContractError, match="observation of a babyai answer is None"):
            session.step("turn left")


def test_a_task_of_another_range_is_refused():
    with (
        scripted("BabyAI", babyai(lambda body: answer())) as (url, _),
        client(url, train="0-9", heldout="10-12") as tasks,
        client(url) as others,
        pytest.raises(TaskError, match="use one of the train and heldout ranges"),
    ):
        tasks.environment().reset(others.task("train", 50))


def test_published_numbers_of_the_splits_are_apart():
    for name in ("babyai", "textcraft"):
        assert FAMILIES[name].train
        assert FAMILIES[name].heldout


class CountingServer:
    """A BabyAI server that numbers its sessions from 0 on, and again after a restart."""

    def __init__(self):
        self.sessions = 0

    def restart(self):
        self.sessions = 0

    def script(self):
        script = babyai(lambda body: answer())
        known = {path: self._if_open(script[path]) for path in ("/reset", "/step", "/close")}
        return {"/create": self._create} | known

    def _create(self, body):
        self.sessions += 1
        return {"id": self.sessions - 1}

    def _if_open(self, reply):
        unknown = {"error": "The id is not valid."}
        return lambda body: reply(body) if body["id"] < self.sessions else unknown


def test_a_session_whose_number_a_restarted_server_gave_to_another_one_is_lost():
    """Regression: both played in one game, and nobody noticed."""
    server = CountingServer()
    with scripted("BabyAI", server.script()) as (url, calls), client(url) as tasks:
        first, second = tasks.environment(), tasks.environment()
        first.reset(tasks.task("train", 0))
        second.reset(tasks.task("train", 1))
        server.restart()
        with pytest.raises(SessionError, match="The id is not valid"):
            second.step("turn left")
        second.reset(tasks.task("train", 1))  # has number 0 now, as the first one had
        before = len(calls)
        with pytest.raises(SessionError, match="session 0 was closed, or lost when the server"):
            first.step("turn left")
        first.close()
        assert calls[before:] == []
        assert second.step("turn left").wellformed
        first.reset(tasks.task("train", 0))
        assert first.step("turn left").wellformed
        assert [body["id"] for path, body in calls if path == "/step"] == [1, 0, 1]


def test_a_kept_session_whose_number_is_given_to_another_one_gets_a_new_number():
    server = CountingServer()
    with scripted("BabyAI", server.script()) as (url, calls), client(url) as tasks:
        kept, other = tasks.environment(), tasks.environment()
        kept.reset(tasks.task("train", 0))
        server.restart()
        other.reset(tasks.task("train", 1))
        before = len(calls)
        kept.reset(tasks.task("train", 2))
        assert [path for path, _ in calls[before:]] == ["/create", "/reset"]
        assert calls[-1][1]["id"] == 1


def test_a_refused_connection_loses_the_sessions_of_the_server():
    """Another worker's session may have their numbers once the server is back."""
    with ExitStack() as running_server:
        url, _ = running_server.enter_context(scripted("BabyAI", CountingServer().script()))
        with client(url) as tasks:
            first, second = tasks.environment(), tasks.environment()
            first.reset(tasks.task("train", 0))
            second.reset(tasks.task("train", 1))
            running_server.close()
            with pytest.raises(UnreachableError, match="check that it is running"):
                second.step("turn left")
            with pytest.raises(SessionError, match="session 0 was closed, or lost when the server"):
                first.step("turn left")


@pytest.mark.parametrize("created", [{}, [7], None])
def test_an_answer_to_create_that_names_no_session_is_a_violation(created):
    script = babyai(lambda body: answer()) | {"/create": lambda body: created}
    with (
        scripted("BabyAI", script) as (url, _),
        client(url) as tasks,
        pytest.raises(ContractError, match="names no session; check the family"),
    ):
        tasks.environment().reset(tasks.task("train", 0))


@pytest.mark.parametrize("timeout_s", [300, 3])
async def test_a_session_that_is_created_after_its_client_gave_up_is_closed(timeout_s):
    """Regression: its number was not known, and AgentGym's sessions never expire."""
    asked, gate = threading.Event(), threading.Event()

    def create(body):
        asked.set()
        gate.wait()
        return {"id": 7}

    script = babyai(lambda body: answer()) | {"/create": create}
    with scripted("BabyAI", script) as (url, calls):
        world = await connect(url, AgentGymOptions(), timeout_s=timeout_s)
        try:
            task = await world.task("train", 0)
            reset = asyncio.create_task(world.session().reset(task))
            await asyncio.to_thread(asked.wait)
            if timeout_s == 300:
                reset.cancel()
            with pytest.raises((asyncio.CancelledError, UnreachableError)):
                await reset
        finally:
            gate.set()
            await world.close()
        assert [path for path, _ in calls] == ["/", "/create", "/close"]
        assert calls[-1] == ("/close", {"id": 7})
