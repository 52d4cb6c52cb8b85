"""Results of held-out evaluations."""

from typing import Any

from agentrl_components.evaluation.summary import HeldoutResult, SuccessRate


def heldout_result(
    name: str, success: float, low: float = 0.0, high: float = 1.0, **other: Any
) -> HeldoutResult:
    """A result with this success and its interval; `other` are further fields."""
    fields = {
        "n": 400,
        "max_turns": 8,
        "temperature": 1.0,
        "samples": 1,
        "wellformed": 1.0,
        "score": success,
        "raw_score": success,
        "turns": 4.5,
        "lost": 0,
        "pass_at": {},
        "categories": {},
        "turn_sweep": {},
    }
    return HeldoutResult(name=name, success=success, low=low, high=high, **(fields | other))


def categories(**success: float) -> dict[str, SuccessRate]:
    """Success in 80 tasks of each category of BabyAI."""
    return {
        f"babyai/{category}": SuccessRate(success=share, low=0.0, high=1.0, n=80)
        for category, share in success.items()
    }
