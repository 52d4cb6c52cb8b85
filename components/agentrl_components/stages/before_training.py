"""What precedes the first phase: evaluate the random policy, warm start, evaluate the result."""

from __future__ import annotations

from agentrl_components.evaluation.heldout import RANDOM
from agentrl_components.run.context import RunContext
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.provision import Fingerprints
from agentrl_components.stages.warm_start import open_source, warm_start
from agentrl_components.storage import keys
from agentrl_components.storage.records import load_record


def prepare(context: RunContext) -> None:
    """Evaluate the random policy, run the warm start, and evaluate its result. What the store holds
    already is not repeated.

    What the warm start cannot learn from is refused first: the evaluation may take hours."""
    source = open_source(context)
    recorded = load_record(context.store, keys.phase(0, keys.FINGERPRINTS), Fingerprints)
    admissible = all(one.admissible for one in recorded.root.values())
    if context.spec.evaluation.random_policy and admissible:
        evaluate(context, RANDOM)
    warm_start(context, source)
    if not context.history:
        evaluate(context, keys.BEFORE)
