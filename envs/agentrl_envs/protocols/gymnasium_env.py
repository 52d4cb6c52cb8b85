"""A task set as a `gymnasium.Env` with text spaces, for code that is written for Gymnasium.

    env = TaskSetEnv(registry.task_set("babyai", {"text": "agentgym"}))
    observation, info = env.reset(seed=3, options={"split": "heldout"})
    observation, reward, terminated, truncated, info = env.step("go to red ball 1")

The other way, a Gymnasium environment with text is the built-in environment `gymnasium`.
"""

from __future__ import annotations

import string
from typing import Any, ClassVar

import gymnasium
from gymnasium import spaces

from agentrl_envs.env import Environment, Observation, Split, TaskSet
from agentrl_envs.errors import OptionError, SessionError

MAX_ACTION_CHARS = 10_000
MAX_OBSERVATION_CHARS = 200_000


class AnyText(spaces.Text):  # type: ignore[misc]
    """Every string up to a length: unlike `spaces.Text`, without a set of allowed characters.
    `sample` draws printable ones."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


class TaskSetEnv(gymnasium.Env):  # type: ignore[misc]
    """One session. `info` has the task's id and category, the admissible actions, and of a step
    `wellformed`, `success` and `raw_score`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, task_set: TaskSet, *, split: Split = "train") -> None:
        self.action_space = AnyText(MAX_ACTION_CHARS)
        self.observation_space = AnyText(MAX_OBSERVATION_CHARS)
        self.instructions = task_set.instructions()
        """What the agent is told before the first observation."""
        self._task_set = task_set
        self._split = split
        self._environment: Environment | None = None
        self._next = 0
        self._about: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Set up the task at index `seed`, or the one after the last. Option `split`: train or
        heldout. Raises `OptionError` for any other."""
        super().reset(seed=seed)
        given = dict(options or {})
        split = given.pop("split", self._split)
        if given or split not in ("train", "heldout"):
            raise OptionError("options: give split as train or heldout, and nothing else")
        index = self._next if seed is None else seed
        self._next = index + 1
        task = self._task_set.task(split, index)
        if self._environment is None:
            self._environment = self._task_set.environment()
        observation = self._environment.reset(task)
        self._about = {"task": task.id, "category": task.category}
        return observation.text, self._info(observation)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the whole reply. Raises `SessionError` before the first `reset`."""
        if self._environment is None:
            raise SessionError("step: call reset first")
        step = self._environment.step(action)
        info = self._info(step.observation) | {
            "wellformed": step.wellformed,
            "success": step.success,
            "raw_score": step.raw_score,
        }
        return step.observation.text, step.reward, step.terminated, step.truncated, info

    def close(self) -> None:
        """Close the session. May be called twice."""
        environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()

    def _info(self, observation: Observation) -> dict[str, Any]:
        return {**self._about, "admissible": observation.admissible}
