"""One BabyAI session."""

from __future__ import annotations

from collections import Counter

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.babyai.actions import Plan, Refusal, Sight, refusal, sight
from agentrl_envs.environments.babyai.field_of_view import Game, look
from agentrl_envs.environments.babyai.hindsight import achieved
from agentrl_envs.environments.babyai.level import Levels, grid_code, state_hash
from agentrl_envs.environments.babyai.pathfinding import FORWARD
from agentrl_envs.environments.babyai.text_form import TextForm
from agentrl_envs.errors import SessionError


class BabyAISession:
    """Plays one task at a time."""

    def __init__(self, form: TextForm, levels: Levels) -> None:
        self._form, self._levels = form, levels
        self._game: Game = None
        self._over = True
        self._truncated = False

    def reset(self, task: Task) -> Observation:
        self._game = None
        game = self._levels.reset(task)
        self._grid = grid_code(game)
        self._at_reset = Counter((it.type, it.color) for it in game.grid.grid if it)
        self._game, self._over, self._truncated = game, False, False
        self._seen = self._look()
        return self._observation(self._form.first(self._form.goal(game.mission), self._seen))

    def step(self, action: str) -> Step:
        if self._game is None:
            raise SessionError("step before reset")
        wanted = self._form.parse(action)
        if isinstance(wanted, Refusal):
            return self._refuse("", wanted)
        plan = self._seen.menu.get(wanted)
        if self._over or plan is None:
            return self._refuse(wanted, refusal(self._seen, wanted, self._form.take))
        return self._carry_out(plan)

    def close(self) -> None:
        self._game = None
        self._over = True

    def _look(self) -> Sight:
        view = look(self._game)
        return sight(view, tuple(map(self._form.name, view.things)), self._form.take)

    def _observation(self, text: str) -> Observation:
        return Observation(text=text, admissible=(*self._seen.menu, *self._form.extra))

    def _refuse(self, action: str, why: Refusal) -> Step:
        """The step of a reply that is not carried out."""
        return Step(
            observation=self._observation(self._form.refused(self._seen, action, why)),
            reward=0.0,
            terminated=self._over and not self._truncated,
            truncated=self._truncated,
            wellformed=action in self._form.extra,
            success=False,
            raw_score=0.0,
            state=state_hash(self._game, self._grid),
        )

    def _carry_out(self, plan: Plan) -> Step:
        """Execute the plan's primitive actions. Stops when the game ends, so that a later action
        cannot undo a success."""
        game = self._game
        was_open = plan.it is not None and plan.it.type == "door" and plan.it.is_open
        raw, terminated, truncated = 0.0, False, False
        for primitive in plan.steps:
            _, raw, terminated, truncated, _ = game.step(primitive)
            if terminated or truncated:
                break
        success = terminated and raw > 0
        self._over = terminated or truncated
        self._truncated = truncated and not terminated
        if max(plan.steps) > FORWARD:
            self._grid = grid_code(game)
        self._seen = self._look()
        goals = achieved(game, plan, was_open, self._at_reset)
        if success and game.mission not in goals:
            goals.insert(0, game.mission)
        ended = "done" if success else "failed" if self._over else ""
        return Step(
            observation=self._observation(self._form.later(self._seen, ended)),
            reward=1.0 if success else 0.0,
            terminated=terminated,
            truncated=self._truncated,
            wellformed=True,
            success=success,
            raw_score=float(raw),
            state=state_hash(game, self._grid),
            achieved=tuple(goals),
        )
