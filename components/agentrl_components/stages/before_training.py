"""What comes before the first phase: the random policy's measure, the warm start and its own."""

from __future__ import annotations

from pydantic import RootModel

from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.run.context import RunContext
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.warm_start import imitate
from agentrl_components.storage import keys
from agentrl_components.storage.records import Stored, checked


class World(Stored):
    """Of what provision recorded of an environment, what matters here."""

    admissible: bool


class Lineage(RootModel[dict[str, World]]):
    """It of all environments, by name."""


BEFORE = "before"
"""The name of the evaluation before training."""


def begin(context: RunContext) -> None:
    """Evaluate the random policy, warm up, evaluate what that gave. Nothing is done twice."""
    worlds = checked(context.store, keys.phase(0, keys.LINEAGE), Lineage).root.values()
    if context.spec.evaluation.random_policy and all(one.admissible for one in worlds):
        evaluate(context, RANDOM)
    imitate(context)
    if not context.history:
        evaluate(context, BEFORE)
