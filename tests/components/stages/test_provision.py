import asyncio

import pytest
from corridor_run import manifest

from agentrl_components.errors import SpecError
from agentrl_components.stages.provision import check_actions, environment_lineage
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import ContractError
from agentrl_envs.world import LocalWorld


class NoWords(CorridorTasks):
    def vocabulary(self) -> tuple[str, ...] | None:
        return None


def test_a_tiny_model_is_refused_for_an_environment_that_lists_no_words():
    with pytest.raises(SpecError, match=r"vocabulary\(\) of environment corridor lists none"):
        asyncio.run(environment_lineage(manifest(), {"corridor": LocalWorld(NoWords())}))


def test_a_pretrained_model_needs_no_list_of_words():
    run = manifest(model={"source": "hf://a/b"})
    found = asyncio.run(environment_lineage(run, {"corridor": LocalWorld(NoWords())}))
    assert found["corridor"]["admissible"]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (("go up", "go down"), r"vocabulary\(\) lacks 'down' of the admissible action 'go down'"),
        (("go up", "go  up"), "actions 'go up' and 'go  up' are the same words"),
    ],
)
def test_actions_that_a_tiny_model_cannot_tell_apart_are_refused(actions, message):
    with pytest.raises(ContractError, match=f"environment lights: .*{message}"):
        check_actions("lights", actions, ("go", "up"))
    check_actions("lights", ("go up", "up"), ("go", "up"))
