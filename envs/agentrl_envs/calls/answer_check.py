"""Checks every answer of a session against the contract in `env`.

An `AnswerChecker` follows one session and raises `ContractError`, naming the call and the value, at
the first answer that the contract does not allow. The client, the server, the in-process session
and the conformance checker all use it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import ContractError
from agentrl_envs.http.received import short

REWARD_TOLERANCE = 1e-6
"""How far the sum of an episode's rewards may leave [0, 1] by floating-point rounding."""
CHARS_AROUND = 40
"""Characters that an error message shows on each side of one that cannot be encoded."""


def score_of(share: float) -> float:
    """The score of an episode that has earned a share of the full score. It is 1 also where the
    share is a sum that rounding has left below: ten rewards of 0.1 sum to 0.9999999999999999."""
    return 1.0 if share >= 1 - REWARD_TOLERANCE else share


class AnswerChecker:
    """Checks the answers of one session, episode after episode."""

    def __init__(self, environment: str = "") -> None:
        """`environment` is its name in errors. Empty: they do not name it."""
        self._score = 0.0
        self._where = f"environment {environment}: " if environment else ""
        self._during = ""

    def reset(self, observation: Observation, task: Task | None = None) -> Observation:
        """Check the first observation of a new episode and return it. `task` is the one that errors
        of the episode name. Raises `ContractError`."""
        self._score = 0.0
        self._during = f" (task {task.id})" if task is not None else ""
        with self._violations_named():
            _check_observation("reset", observation)
        return observation

    def step(self, step: Step) -> Step:
        """Check a step and return it. Raises `ContractError`."""
        with self._violations_named():
            self._check_step(step)
        self._score += step.reward
        return step

    @contextmanager
    def _violations_named(self) -> Iterator[None]:
        try:
            yield
        except ContractError as error:
            raise ContractError(f"{self._where}{error}{self._during}") from None

    def _check_step(self, step: Step) -> None:
        if not isinstance(step, Step):
            raise _violation("step", "the answer", step, "an agentrl_envs.env.Step")
        _check_observation("step", step.observation)
        _check_flags(step)
        _check_annotations(step)
        _check_reward(step.reward, self._score)


def _check_observation(call: str, observation: Observation) -> None:
    if not isinstance(observation, Observation):
        field = "the answer" if call == "reset" else "observation"
        raise _violation(call, field, observation, "an agentrl_envs.env.Observation")
    if not isinstance(observation.text, str):
        raise _violation(call, "observation.text", observation.text, "a string")
    _check_encodable(call, "observation.text", observation.text)
    admissible = observation.admissible
    if admissible is None:
        return
    if not isinstance(admissible, tuple) or not all(
        isinstance(text, str) and text.strip() for text in admissible
    ):
        raise _violation(call, "observation.admissible", admissible, "a tuple of non-empty strings")
    if len(set(admissible)) < len(admissible):
        raise _violation(call, "observation.admissible", admissible, "free of duplicates")
    _check_encodable(call, "observation.admissible", *admissible)


def _check_flags(step: Step) -> None:
    for field in ("terminated", "truncated", "wellformed", "success"):
        value = getattr(step, field)
        if not isinstance(value, bool):
            raise _violation("step", field, value, "true or false")
    if step.terminated and step.truncated:
        raise _violation("step", "truncated", True, "false where terminated is true")


def _check_annotations(step: Step) -> None:
    if not _is_number(step.raw_score):
        raise _violation("step", "raw_score", step.raw_score, "a finite number")
    if step.state is not None and not isinstance(step.state, str):
        raise _violation("step", "state", step.state, "a string or none")
    _check_encodable("step", "state", step.state or "")
    if not isinstance(step.achieved, tuple) or not all(isinstance(g, str) for g in step.achieved):
        raise _violation("step", "achieved", step.achieved, "a tuple of strings")
    _check_encodable("step", "achieved", *step.achieved)


def _check_encodable(call: str, field: str, *texts: str) -> None:
    """Raises `ContractError` if a text has half of a surrogate pair, as in file names and output
    decoded with `surrogateescape`. Neither JSON nor a tokenizer takes such a text."""
    for text in texts:
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            around = text[max(0, error.start - CHARS_AROUND) : error.end + CHARS_AROUND]
            expected = 'text that UTF-8 can encode: text.encode(errors="replace").decode()'
            raise _violation(call, field, around, expected) from None


def _check_reward(reward: float, score: float) -> None:
    if not _is_number(reward):
        raise _violation("step", "reward", reward, "a finite number")
    if not -REWARD_TOLERANCE <= score + reward <= 1 + REWARD_TOLERANCE:
        expected = (
            f"such that the rewards of the episode sum to [0, 1]; the sum is {score + reward}. Map "
            "the scale of your game: (score - lowest) / (highest - lowest), with 0 for a step that "
            "scores nothing"
        )
        raise _violation("step", "reward", reward, expected)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _violation(call: str, field: str, value: object, expected: str) -> ContractError:
    return ContractError(
        f"{call}: {field} is {short(value)}; the contract requires it to be {expected}"
    )
