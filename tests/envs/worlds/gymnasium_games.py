"""Gymnasium environments with text, for tests: `gymnasium_games:Count-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

COMMANDS = ("one more", "one less")


class Count(gymnasium.Env[str, str]):
    """Count to a number that the seed decides. Each step towards it is worth 1."""

    observation_space = spaces.Text(100)
    action_space: gymnasium.Space[Any] = spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._goal = int(self.np_random.integers(2, 1_000_000))
        self._count = 0
        return self._told(), {"admissible_commands": list(COMMANDS)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        up = action == COMMANDS[0]
        self._count += 1 if up else -1
        done = self._count in (2, -2)
        info = {"admissible_commands": list(COMMANDS)}
        return self._told(), 1.0 if up else -1.0, done, False, info

    def _told(self) -> str:
        return f"{self._count} of 2, game {self._goal}"


class Numbered(Count):
    """The same, with numbers as actions and text in a dictionary."""

    action_space = spaces.Discrete(2)

    def reset(self, **given: Any) -> Any:
        text, _ = super().reset(**given)
        return {"said": text}, {}

    def step(self, action: Any) -> Any:
        text, reward, done, cut, _ = super().step(COMMANDS[action])
        return {"said": text}, reward, done, cut, {}


class Tenths(Count):
    """Ten steps, each worth 0.1."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._count += 1
        return self._told(), 0.1, self._count == 10, False, {"admissible_commands": list(COMMANDS)}


gymnasium.register("Count-v0", Count)
gymnasium.register("Numbered-v0", Numbered)
gymnasium.register("Tenths-v0", Tenths)
