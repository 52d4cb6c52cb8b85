import httpx
import pytest
from agentgym_servers import client, served

from agentrl_envs.conformance.check import check
from agentrl_envs.env import Task
from agentrl_envs.environments.babyai import BabyAIOptions, BabyAITasks
from agentrl_envs.environments.corridor import CorridorOptions, CorridorTasks
from agentrl_envs.errors import OptionError
from agentrl_envs.protocols.agentgym_server import FIRST_HELDOUT, agentgym_gateway

PUBLISHED = BabyAIOptions(compat="agentgym", text="agentgym")


def post(url: str, path: str, **body: object) -> object:
    answer = httpx.post(f"{url}/{path}", json=body, timeout=60)
    assert answer.status_code == 200
    return answer.json()


def test_a_number_is_a_level_and_a_seed_and_a_session_an_integer():
    with served(BabyAITasks(PUBLISHED)) as url:
        assert httpx.get(url, timeout=60).json() == "This is environment BabyAI."
        assert [post(url, "create")["id"] for _ in range(2)] == [0, 1]
        opening = post(url, "reset", id=1, data_idx=1804)
        task = BabyAITasks(PUBLISHED).numbered(1804)
        assert (task.payload["seed"], task.payload["data_idx"]) == (45, 1804)
        first = BabyAITasks(PUBLISHED).environment().reset(task)
        assert opening["observation"] == first.text
        assert (opening["score"], opening["done"], opening["id"]) == (0, False, 1)
        step = post(url, "step", id=1, action="turn left")
        assert set(step) >= {"observation", "reward", "score", "done"}
        assert httpx.get(f"{url}/observation?id=1", timeout=60).json() == step["observation"]
        assert (post(url, "close", id=1), post(url, "close", id=1)) == (True, False)


def test_an_action_that_agentgyms_client_sends_alone_gets_agentgyms_reason():
    """The client takes the action out of the reply: the server sees no `Action:`."""
    menu = '["turn left", "turn right", "pickup yellow key 1", "go to yellow key 1", '
    refusal = "There is a barrier in front of you, you can't move forward."
    unknown = "The action is not recognized. Please check valid actions."
    with served(BabyAITasks(PUBLISHED)) as url:
        post(url, "create")
        post(url, "reset", id=0, data_idx=1808)
        facing = post(url, "step", id=0, action="turn left")["observation"]
        assert "You are facing a wall 1 steps away." in facing
        listed = f'\nAvailable actions: {menu}"check available actions"]'
        for action, answer in {
            "move forward": refusal,
            "dance": unknown,
            "": "No change in state.",
            "Thought: hm.\nAction: move forward": refusal,
        }.items():
            assert post(url, "step", id=0, action=action)["observation"] == answer + listed


def test_errors_have_status_200_as_agentgyms_clients_require_and_lose_nothing_else():
    with served(BabyAITasks(PUBLISHED), capacity=1) as url:
        post(url, "create")
        post(url, "create")
        assert post(url, "step", id=99, action="x") == {"error": "The id 99 is not valid."}
        assert "call reset first" in post(url, "step", id=0, action="x")["error"]
        assert "data_idx: must be a number" in post(url, "reset", id=0)["error"]
        assert "does not use" in post(url, "reset", id=0, data_idx=11)["error"]
        assert "observation" in post(url, "reset", id=0, data_idx=1)
        assert "action: must be text" in post(url, "step", id=0)["error"]
        assert "1 sessions" in post(url, "reset", id=1, data_idx=1)["error"]
        broken = httpx.post(f"{url}/step", content=b"{", timeout=60)
        assert (broken.status_code, "not a JSON object" in broken.text) == (200, True)
        assert post(url, "step", id=0, action="turn left")["done"] is False


def test_an_environment_without_numbers_deals_train_tasks_and_then_held_out_ones():
    tasks = CorridorTasks(CorridorOptions(turns=9))
    with served(tasks) as url:
        post(url, "create")
        for number, (split, index) in {3: ("train", 3), FIRST_HELDOUT + 2: ("heldout", 2)}.items():
            expected = tasks.environment().reset(tasks.task(split, index))
            assert post(url, "reset", id=0, data_idx=number)["observation"] == expected.text


def test_the_other_dialect_has_a_bare_integer_and_bare_observations():
    with served(CorridorTasks(), family="searchqa") as url:
        number = post(url, "create", id=0)
        assert number == 0
        prompt = post(url, "reset", env_idx=number, id=1)
        assert httpx.get(f"{url}/observation?env_idx=0", timeout=60).json() == prompt
        answer = post(url, "step", env_idx=number, action="right")
        assert (set(answer) >= {"observation", "reward", "done"}, answer["info"]) == (True, None)


def test_webarenas_clients_play_on_until_terminated_so_a_step_limit_terminates():
    with served(CorridorTasks(CorridorOptions(turns=1)), family="webarena") as url:
        assert post(url, "create") == {"env_idx": 0}
        tasks = CorridorTasks(CorridorOptions(turns=1))
        offered = tasks.environment().reset(tasks.task("train", 1)).admissible
        post(url, "reset", env_idx=0, seed=0, idx=1)
        answer = post(url, "step", env_idx=0, action=offered[0])
        assert (answer["terminated"], answer["truncated"]) == (True, True)


def test_a_science_world_is_answered_with_description_and_raw_score():
    with served(CorridorTasks(), family="sciworld") as url:
        post(url, "create")
        opening = post(url, "reset", id=0, data_idx=1)
        assert set(opening) >= {"task_description", "observation", "score"}


@pytest.mark.parametrize("family", ["textcraft", "searchqa"])
def test_our_client_and_our_server_keep_the_contract_in_either_dialect(family):
    with (
        served(CorridorTasks(), family=family) as url,
        client(
            url, family=family, train="0-29", heldout=f"{FIRST_HELDOUT}-{FIRST_HELDOUT + 19}"
        ) as tasks,
    ):
        report = check(tasks, tasks=2)
    # The corridor's own limits of the protocol: replies are reported by their text, and an
    # observation does not list the actions.
    assert set(report.failed()) <= {"invalid-reply"}, str(report)


def test_babyai_through_both_keeps_the_contract():
    with served(BabyAITasks(PUBLISHED)) as url, client(url) as tasks:
        report = check(tasks, tasks=2)
    assert report.passed, str(report)


def test_the_token_is_the_password_of_the_url_for_clients_that_know_no_tokens():
    with served(CorridorTasks(), token="sesame") as url:
        assert httpx.post(f"{url}/create", timeout=60).status_code == 401
        assert httpx.post(url.replace("//", "//any:wrong@") + "/create").status_code == 401
        with_password = url.replace("//", "//agentrl:sesame@")
        assert httpx.post(f"{with_password}/create", timeout=60).json()["id"] == 0


def test_an_unknown_family_is_refused():
    with pytest.raises(OptionError, match="there is no 'babyface'; use one of babyai"):
        agentgym_gateway(CorridorTasks(), "babyface")


def test_a_numbered_task_is_playable_and_in_its_split():
    tasks = BabyAITasks(PUBLISHED)
    for number in (0, 1804):
        task = tasks.numbered(number)
        assert isinstance(task, Task)
        assert tasks.environment().reset(task).text.startswith("Your goal: ")
