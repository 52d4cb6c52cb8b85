"""minigrid levels without rendering: the same worlds from the same seeds, about ten times faster.

The only module that imports minigrid, which takes a second; `level.build` imports it on demand.
"""

from __future__ import annotations

import importlib
from typing import Any, cast

import gymnasium
import minigrid  # noqa: F401  registers the levels
from minigrid.core.roomgrid import RoomGrid
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling
from minigrid.minigrid_env import MiniGridEnv

from agentrl_envs.environments.babyai.field_of_view import STEP, Game


def headless_level(level: str) -> Game:
    """A level by its minigrid id, without gymnasium's wrappers and checkers."""
    spec = gymnasium.registry[level]
    module, name = str(spec.entry_point).split(":")
    kind = getattr(importlib.import_module(module), name)
    return type(name, (_Headless, kind), {})(**spec.kwargs)


class _Headless:
    """Mixin for a level class. Disables minigrid's rendering after every primitive action, and its
    messages when it rejects a sample."""

    def gen_obs(self) -> dict[str, Any]:
        return {}

    def image(self) -> Any:
        """minigrid's observation [7, 7, 3], which `gen_obs` leaves out: object, color, state."""
        return MiniGridEnv.gen_obs(cast(MiniGridEnv, self))["image"]

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
            except (RecursionError, RejectSampling):  # minigrid requests another sample
                continue
            break
        self.surface = self.mission = self.instrs.surface(self)
