"""One BabyAI session by AgentGym's rules."""

from __future__ import annotations

from typing import Any

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.babyai.field_of_view import Game
from agentrl_envs.environments.babyai.level import Levels, grid_code, state_hash
from agentrl_envs.environments.babyai.published import text
from agentrl_envs.environments.babyai.published.menu import CHECK, NO_CHANGE, UNKNOWN, Menu, menu
from agentrl_envs.environments.babyai.published.sight import Sight, see
from agentrl_envs.errors import SessionError

ENDED = "The episode has ended."


class PublishedSession:
    """Plays one task at a time.

    As AgentGym does, a turn stops at the first primitive action that leaves the image as it was.
    Unlike AgentGym, it also stops when the game ends, a late success counts, a reward is given
    once, and minigrid's step limit truncates.
    """

    _image: Any
    """minigrid's observation [7, 7, 3]."""
    _sight: Sight
    _menu: Menu

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._game: Game = None
        self._ended = self._truncated = False

    def reset(self, task: Task) -> Observation:
        self._game = None
        self._game = game = self._levels.reset(task)
        self._ended = self._truncated = False
        self._look()
        return self._seen(text.first(game.mission, self._sight))

    def step(self, action: str) -> Step:
        if self._game is None:
            raise SessionError("step before reset")
        if self._ended:
            return self._step(self._seen(ENDED), wellformed=False)
        wanted = text.read(action, self._menu.plans)
        if wanted is None:
            observation = Observation(text=text.ONE_ACTION, admissible=(*self._menu.plans,))
            return self._step(observation, wellformed=False)
        if CHECK.split()[0] in wanted:
            return self._step(self._seen(text.listing(self._menu.plans)), wellformed=True)
        if plan := self._menu.plans.get(wanted):
            return self._execute(plan)
        if wanted in self._menu.plans or not wanted:
            return self._step(self._seen(NO_CHANGE), wellformed=bool(wanted))
        why = self._menu.refusals.get(wanted, UNKNOWN)
        return self._step(self._seen(why), wellformed=False)

    def close(self) -> None:
        self._game = None

    def _execute(self, plan: tuple[int, ...]) -> Step:
        game = self._game
        success = terminated = truncated = False
        raw = 0.0
        for primitive in plan:
            before = self._image
            _, raw, terminated, truncated, _ = game.step(primitive)
            self._image = game.image()
            # The wrong object ends minigrid's game with 0 in strict levels; AgentGym plays on.
            success = bool(terminated and raw > 0)
            if success or truncated or (self._image == before).all():
                break
        self._truncated = bool(truncated and not success)
        self._ended = success or self._truncated
        self._look()
        shown = text.description(self._sight)
        # AgentGym says so of the wrong object too, in levels where that ends minigrid's game.
        shown += text.COMPLETED if terminated else ""
        return self._step(
            self._seen(shown), wellformed=True, success=success, raw=float(raw) if success else 0.0
        )

    def _look(self) -> None:
        self._image = self._game.image()
        self._sight = see(self._game, self._image)
        self._menu = menu(self._sight)

    def _seen(self, shown: str) -> Observation:
        plans = (*self._menu.plans,)
        return Observation(text=text.with_menu(shown, plans), admissible=plans)

    def _step(
        self, seen: Observation, *, wellformed: bool, success: bool = False, raw: float = 0.0
    ) -> Step:
        game = self._game
        return Step(
            observation=seen,
            reward=raw,
            terminated=self._ended and not self._truncated,
            truncated=self._truncated,
            wellformed=wellformed,
            success=success,
            raw_score=raw,
            state=state_hash(game, grid_code(game)),
            achieved=(game.mission,) if success else (),
        )
