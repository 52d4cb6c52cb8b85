"""minigrid levels without rendering: the same worlds from the same seeds, about ten times faster.
Their state after a reset can be saved, and restored in a tenth of the time of generating it.

The only module that imports minigrid, which takes a second; `level.build` imports it on demand.
"""

from __future__ import annotations

import importlib
import io
import pickle
from typing import Any, cast

import gymnasium
import minigrid  # noqa: F401  registers the levels
from minigrid.core.roomgrid import RoomGrid
from minigrid.core.world_object import Wall
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling
from minigrid.minigrid_env import MiniGridEnv

from agentrl_envs.environments.babyai.field_of_view import STEP, Game

_SHARED = ("actions", "action_space", "observation_space", "_np_random", "_np_random_seed")
"""Attributes that games of a level have in common: large ones that playing does not change.
Only generating a world draws random numbers."""
_GAME, _WALL = 0, 1
_A_WALL = Wall()


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


def saved(game: Game) -> bytes:
    """The state of a game that was just reset, for `restored`. Walls are saved as one."""
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)
    pickler.game = game
    pickler.dump({name: held for name, held in vars(game).items() if name not in _SHARED})
    return file.getvalue()


def restored(game: Game, state: bytes) -> Game:
    """A new game of the same level as `game`, in the state that `saved` returned."""
    new = object.__new__(type(game))
    unpickler = _Unpickler(io.BytesIO(state))
    unpickler.game = new
    shared = {name: held for name, held in vars(game).items() if name in _SHARED}
    new.__dict__ = shared | unpickler.load()
    return new


class _Pickler(pickle.Pickler):
    game: Game

    def persistent_id(self, thing: Any) -> int | None:
        if thing is self.game:
            return _GAME
        # A wall never changes; one that a level placed as an object has its position.
        return _WALL if type(thing) is Wall and thing.init_pos is None else None


class _Unpickler(pickle.Unpickler):
    game: Game

    def persistent_load(self, identity: int) -> Any:
        return self.game if identity == _GAME else _A_WALL
