"""A minigrid level without pictures: the same worlds from the same seeds, some ten times faster.

The one module that imports minigrid, which takes a second; `level.build` loads it when needed.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import minigrid  # noqa: F401  registers the levels
from minigrid.core.roomgrid import RoomGrid
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling

from agentrl_envs.environments.babyai.game import STEP, Game


def quiet_level(level: str) -> Game:
    """A game of one level, by minigrid id. Without gymnasium's wrappers and checkers."""
    spec = gymnasium.registry[level]
    module, name = str(spec.entry_point).split(":")
    kind = getattr(importlib.import_module(module), name)
    return type(name, (_Quiet, kind), {})(**spec.kwargs)


class _Quiet:
    """Mixed into a level class. minigrid draws what the agent sees after every primitive action
    and prints when it rejects a sample; neither is wanted here."""

    def gen_obs(self) -> dict[str, Any]:
        return {}

    @property
    def front_pos(self: Any) -> tuple[int, int]:
        (x, y), (dx, dy) = self.agent_pos, STEP[self.agent_dir]
        return int(x) + dx, int(y) + dy

    def _gen_grid(self: Any, width: int, height: int) -> None:
        while True:
            try:
                RoomGrid._gen_grid(self, width, height)
                self.gen_mission()
                self.validate_instrs(self.instrs)
            except (RecursionError, RejectSampling):  # minigrid's own signals for "sample again"
                continue
            break
        self.surface = self.mission = self.instrs.surface(self)
