"""Every answer of a session is checked against the contract."""

from collections.abc import Callable

import pytest

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import ContractError

TASK = Task(id="lights-1", category="one", payload={})
HALF = "x\ud83d"
"""The first half of an emoji. UTF-8 cannot encode it."""


def step(text: str = "on", **fields) -> Step:
    return Step(
        observation=Observation(text=text, admissible=fields.pop("admissible", None)),
        reward=fields.pop("reward", 0.0),
        terminated=False,
        truncated=False,
        wellformed=True,
        success=False,
        raw_score=0.0,
        **fields,
    )


def test_a_violation_names_environment_call_value_and_task():
    checker = AnswerChecker("lights")
    checker.reset(Observation(text="off"), TASK)
    with pytest.raises(ContractError) as raised:
        checker.step(step(reward=float("inf")))
    assert str(raised.value) == (
        "environment lights: step: reward is inf; the contract requires it to be a finite number "
        "(task lights-1)"
    )


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        (lambda checker: checker.reset(Observation(text=HALF), TASK), "reset: observation.text"),
        (lambda checker: checker.step(step(HALF)), "step: observation.text"),
        (
            lambda checker: checker.step(step(admissible=("a", HALF))),
            "step: observation.admissible",
        ),
        (lambda checker: checker.step(step(state=HALF)), "step: state"),
        (lambda checker: checker.step(step(achieved=(HALF,))), "step: achieved"),
    ],
)
def test_a_text_that_utf_8_cannot_encode_is_a_violation(
    answer: Callable[[AnswerChecker], object], field: str
):
    """Regression: servers answered 500 again and again, and tokenizers ended the run."""
    checker = AnswerChecker("lights")
    checker.reset(Observation(text="off"), TASK)
    with pytest.raises(ContractError) as raised:
        answer(checker)
    assert str(raised.value) == (
        f"environment lights: {field} is 'x\\ud83d'; the contract requires it to be text that "
        'UTF-8 can encode: text.encode(errors="replace").decode() (task lights-1)'
    )


def test_the_error_shows_the_place_in_a_long_text():
    with pytest.raises(ContractError, match=r" is '(é{40})\\ud83d(é{40})'; "):
        AnswerChecker().reset(Observation(text="é" * 1000 + "\ud83d" + "é" * 1000))


def test_every_other_text_keeps_the_contract():
    checker = AnswerChecker()
    checker.reset(Observation(text="žluťoučký 🐎 \x00\x1b[2J", admissible=("jdi 🐎",)))
    checker.step(step("🐎", state="🐎", achieved=("🐎",)))
