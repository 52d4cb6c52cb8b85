"""A trained agent plays beside a person: it continues from whatever was played."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from corridor_run import manifest
from local_run import run_to_end
from thinking_chat import save_thinking_model

from agentrl_components.errors import SpecError
from agentrl_components.reporting.description import model_metadata
from agentrl_components.spec.fields.pods import Variable
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_envs.env import Observation
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_pipelines.cli.env_commands.group import envs
from agentrl_pipelines.local.agent import Acting, SavedAgent, TrainedAgent, fetch_agent

RUN = manifest(
    warmStart=None,
    horizon={"phases": [{"maxTurns": 4, "iterations": 1}]},
    environments=[{"name": "walk", "builtin": "corridor", "options": {"turns": 3}}],
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "root"
    run_to_end(RUN, folder)
    return folder


@pytest.fixture(scope="module")
def saved(root: Path, tmp_path_factory: pytest.TempPathFactory) -> SavedAgent:
    return fetch_agent(str(root), "last", "corridor", tmp_path_factory.mktemp("agent"))


def test_the_manifest_of_the_run_says_how_its_agent_acts(saved: SavedAgent):
    assert saved.options == {"turns": 3}
    assert (saved.acting.template, saved.acting.admissible) == ("plain", True)
    assert (saved.acting.context, saved.acting.max_tokens_per_turn) == (64, 4)
    assert saved.acting.max_turns == 4


def test_the_agents_environment_has_the_variables_of_its_run(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("WALK_NEW", "")  # so that it is deleted after the test
    monkeypatch.delenv("WALK_NEW")
    compute = RUN.spec.compute.model_copy(update={"env": (Variable(name="WALK_NEW", value="a"),)})
    spec = RUN.spec.model_copy(update={"compute": compute})
    run = RUN.model_copy(update={"spec": spec})
    DirectoryStore(tmp_path / "store").put(keys.RUN, run.model_dump_json(by_alias=True).encode())
    with pytest.raises(SpecError, match="the run has no checkpoint yet"):
        fetch_agent(str(tmp_path), "best", "corridor", tmp_path / "scratch")
    assert os.environ["WALK_NEW"] == "a"


def test_the_agent_continues_from_the_persons_action_as_from_its_own(saved: SavedAgent):
    """The first agent proposes before each action, the second only sees what was played."""
    tasks = CorridorTasks()
    environment = tasks.environment()
    with closing(TrainedAgent(saved)) as asked, closing(TrainedAgent(saved)) as told:
        seen = environment.reset(tasks.task("train", 0))
        for agent in (asked, told):
            agent.begin(tasks.instructions(), seen)
        for _ in range(3):
            proposed = asked.propose(seen)
            assert seen.admissible is not None
            assert proposed in seen.admissible
            other = next(action for action in seen.admissible if action != proposed)
            step = environment.step(other)
            for agent in (asked, told):
                agent.played(other, step.observation)
            seen = step.observation
            if step.terminated:
                break
            assert asked.propose(seen) == told.propose(seen)


def test_an_agent_whose_context_is_full_proposes_nothing(saved: SavedAgent):
    tasks = CorridorTasks()
    seen = tasks.environment().reset(tasks.task("train", 0))
    with closing(TrainedAgent(saved)) as agent:
        agent.begin(" ".join([tasks.instructions()] * 9), seen)
        assert agent.propose(seen) is None


def test_an_agent_whose_prompt_asks_for_thoughts_proposes_an_action_that_is_listed(tmp_path: Path):
    save_thinking_model(tmp_path)
    seen = Observation(text="look", admissible=("go left",))
    with closing(TrainedAgent(SavedAgent(folder=tmp_path, acting=Acting(), options={}))) as agent:
        agent.begin("", seen)
        assert agent.propose(seen) == "go left"


def play(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(envs, ["play", "corridor", *arguments], input=typed)


def test_the_agent_of_a_run_is_watched_in_the_terminal(root: Path):
    result = play("--agent", str(root), "--watch", "--index", "3")
    assert result.exit_code == 0, result.output
    assert "agent: " in result.output
    assert " turns, score " in result.output


@pytest.mark.parametrize(("given", "most"), [((), 4), (("--max-turns", "5"), 5)])
def test_a_watched_episode_has_the_turn_limit_of_the_run(root: Path, given, most):
    """The agent, of one iteration, needs five turns for some of the tasks."""
    played = [
        play("--agent", str(root), "--watch", "-o", "turns=12", "--index", str(index), *given)
        for index in range(4)
    ]
    assert max(shown.output.count("agent: ") for shown in played) == most


def test_the_turn_limit_of_the_environment_takes_precedence_over_that_of_the_horizon():
    metadata = {
        "agentrl": model_metadata(RUN.spec)["agentrl"]
        | {"max_turns": 8, "environments": [{"name": "walk", "builtin": "c", "max_turns": 3}]}
    }
    [environment] = metadata["agentrl"]["environments"]
    assert Acting.of(metadata, environment).max_turns == 3
    assert Acting.of(metadata, {}).max_turns == 8


def test_a_registered_model_is_played_by_its_metadata(
    saved: SavedAgent, tmp_path_factory: pytest.TempPathFactory
):
    described = saved.folder / "MLmodel"
    described.write_text(
        yaml.safe_dump({"metadata": json.loads(json.dumps(model_metadata(RUN.spec)))})
    )
    again = fetch_agent(saved.folder.as_uri(), "best", "corridor", tmp_path_factory.mktemp("again"))
    assert (again.acting, again.options) == (saved.acting, saved.options)


def test_a_registered_model_whose_registry_is_not_named_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    refused = play("--agent", "models:/x/1")
    assert refused.exit_code == 2
    assert "models:/x/1: needs the address of the registry in MLFLOW_TRACKING_URI" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_run_and_an_unknown_checkpoint_are_refused(root: Path, tmp_path: Path):
    with pytest.raises(SpecError, match="holds no run"):
        fetch_agent(str(tmp_path), "best", "corridor", tmp_path / "scratch")
    with pytest.raises(SpecError, match="no checkpoint 77"):
        fetch_agent(str(root), "77", "corridor", tmp_path / "other")


def test_watching_without_an_agent_is_refused():
    assert "has no effect without --agent" in play("--watch").output
