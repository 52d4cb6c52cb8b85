"""What an answer must look like, checked as the answers come.

A `Referee` follows one session and raises `ContractError`, naming the call and the value, at the
first answer that the contract in `env` does not allow. The client, the in-process session and the
conformance checker use it alike, so a world that lies is caught wherever it runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agentrl_envs.env import Observation, Step
from agentrl_envs.errors import ContractError

ROUNDING = 1e-6
"""How far outside [0, 1] the sum of an episode's rewards may be, for floats that were added up."""


class Referee:
    """Follows the answers of one session, episode after episode."""

    def __init__(self) -> None:
        self._score = 0.0

    def reset(self, observation: Observation) -> Observation:
        """A new episode has begun. Returns the observation."""
        self._score = 0.0
        _check_observation("reset", observation)
        return observation

    def step(self, step: Step) -> Step:
        """The agent has acted. Returns the step."""
        _check_observation("step", step.observation)
        _check_ending(step)
        _check_info(step.info)
        _check_reward(step.reward, self._score)
        self._score += step.reward
        return step


def _check_observation(call: str, observation: Observation) -> None:
    if not isinstance(observation.text, str):
        raise _broken(call, "observation.text", observation.text, "a string")
    admissible = observation.admissible
    if admissible is None:
        return
    if not isinstance(admissible, tuple) or not all(
        isinstance(text, str) and text.strip() for text in admissible
    ):
        raise _broken(call, "observation.admissible", admissible, "a tuple of non-empty strings")
    if len(set(admissible)) < len(admissible):
        raise _broken(call, "observation.admissible", admissible, "free of repeats")


def _check_ending(step: Step) -> None:
    for field in ("terminated", "truncated"):
        value = getattr(step, field)
        if not isinstance(value, bool):
            raise _broken("step", field, value, "true or false")
    if step.terminated and step.truncated:
        raise _broken("step", "truncated", True, "false where terminated is true")


def _check_info(info: Mapping[str, Any]) -> None:
    for key in ("wellformed", "success"):
        if not isinstance(info.get(key), bool):
            raise _broken("step", f"info.{key}", info.get(key), "true or false")
    if not _is_number(info.get("raw_score")):
        raise _broken("step", "info.raw_score", info.get("raw_score"), "a finite number")
    if "state" in info and not isinstance(info["state"], str):
        raise _broken("step", "info.state", info["state"], "a string")
    try:
        json.dumps(dict(info), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _broken("step", "info", dict(info), f"JSON ({error})") from None


def _check_reward(reward: float, score: float) -> None:
    if not _is_number(reward):
        raise _broken("step", "reward", reward, "a finite number")
    if not -ROUNDING <= score + reward <= 1 + ROUNDING:
        expected = f"to keep the episode's sum in [0, 1]; the sum is {score + reward}"
        raise _broken("step", "reward", reward, expected)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _broken(call: str, field: str, value: object, expected: str) -> ContractError:
    shown = repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return ContractError(f"{call}: {field} is {shown}; the contract wants it {expected}")
