"""The examples of docs/use-the-agent.md choose what the product's own engine chooses."""

import re
from contextlib import closing
from pathlib import Path

import pytest
import torch
import yaml
from repository import ROOT

from agentrl_components.dialogue.open import open_dialogue
from agentrl_components.model.sources import make_tiny
from agentrl_components.reporting.description import model_metadata
from agentrl_components.spec import Model
from agentrl_components.spec.parsing.load import load
from agentrl_components.tracking.mlflow.registry import SIGNATURE
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_pipelines.local.agent import Acting, SavedAgent, TrainedAgent

PAGE = (ROOT / "docs/use-the-agent.md").read_text("utf-8")
TASKS = CorridorTasks()
SEEN = TASKS.environment().reset(TASKS.task("train", 0))
ACTIONS = ["go left", "go to the door", "push", "pull it"]


def examples() -> dict:
    """What the Python blocks of the page define."""
    defined: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(block, defined)
    return defined


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = {"layers": 1, "hidden": 32, "heads": 2, "kvHeads": 1, "intermediate": 32}
    model = Model.model_validate({"tiny": shape, "context": 128})
    words = sorted({*TASKS.vocabulary(), "go", "the", "to", "it"})
    return make_tiny(model, words, 0, tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def chosen(folder: Path) -> str:
    """The action of the product's own engine."""
    saved = SavedAgent(folder=folder, acting=Acting(template="plain", context=128), options={})
    with closing(TrainedAgent(saved)) as agent:
        agent.begin(TASKS.instructions(), SEEN)
        action = agent.propose(SEEN.__class__(text=SEEN.text, admissible=tuple(ACTIONS)))
    assert action in ACTIONS
    return action


@pytest.mark.parametrize("kind", [Path, str])
def test_transformers_with_the_mask_chooses_the_same_action(folder: Path, chosen: str, kind: type):
    reply = examples()["reply"]
    assert reply(kind(folder), TASKS.instructions(), SEEN.text, ACTIONS) == chosen


def test_one_allowed_token_at_a_time_chooses_the_same_action(folder: Path, chosen: str):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    dialogue = open_dialogue(folder, "plain", False)

    def post(body: dict) -> dict:
        """As vLLM answers: the likeliest of the allowed tokens."""
        with torch.no_grad():
            logits_V = model(torch.tensor([body["prompt"]])).logits[0, -1]
        best = max(body["allowed_token_ids"], key=lambda token: float(logits_V[token]))
        return {"choices": [{"token_ids": [best]}]}

    ids = dialogue.opening(TASKS.instructions(), SEEN.text)
    reply = examples()["masked_reply"](post, dialogue, ids, ACTIONS)
    assert dialogue.text(reply) == chosen


def test_the_metadata_on_the_page_is_that_of_the_demo():
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    shown = yaml.safe_load(block)
    assert shown["metadata"] == model_metadata(load(str(ROOT / "examples/babyai.yaml"), ()).spec)
    known = yaml.safe_load(SIGNATURE)["signature"]
    assert shown["signature"].items() <= known.items()
