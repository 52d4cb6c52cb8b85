"""What comes before the first phase: the random policy's measure, the warm start and its own."""

from __future__ import annotations

import json

from agentrl_components import layout
from agentrl_components.context import RunContext
from agentrl_components.exam import RANDOM
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.imitate import imitate

BEFORE = "before"
"""The name of the evaluation before training."""


def begin(context: RunContext) -> None:
    """Evaluate the random policy, warm up, evaluate what that gave. Nothing is done twice."""
    worlds = json.loads(context.store.get(layout.phase(0, layout.LINEAGE)))
    if context.spec.evaluation.random_policy and all(w["admissible"] for w in worlds.values()):
        evaluate(context, RANDOM)
    imitate(context)
    if not context.history:
        evaluate(context, BEFORE)
