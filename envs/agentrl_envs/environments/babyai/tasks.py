"""BabyAI's supply of tasks."""

from __future__ import annotations

from agentrl_envs.env import Split, Task, split_of
from agentrl_envs.environments.babyai.environment import BabyAISession
from agentrl_envs.environments.babyai.level import build, grid_code, task_id
from agentrl_envs.environments.babyai.options import BabyAIOptions, short_name
from agentrl_envs.environments.babyai.text_agentgym import AgentGym
from agentrl_envs.environments.babyai.text_form import TextForm
from agentrl_envs.environments.babyai.text_terse import Terse
from agentrl_envs.errors import TaskError

MOST_REPEATS = 25
"""After so many known held-out worlds in a row the level has hardly any more: it is closed."""


class _Walk:
    """One level's seeds 0, 1, 2, ... told apart by split. Held-out tasks are kept once only; in
    training a small world may come again."""

    def __init__(self, level: str) -> None:
        self.level = level
        self._game = build(level)
        self._seed = 0
        self._found: dict[Split, list[tuple[int, str]]] = {"train": [], "heldout": []}
        self._heldout: set[str] = set()
        self._repeats = 0

    def task(self, split: Split, position: int) -> Task:
        found = self._found[split]
        while len(found) <= position:
            if split == "heldout" and self._repeats == MOST_REPEATS:
                raise TaskError(
                    f"index: {self.level} has {len(found)} different {split} tasks; ask for fewer"
                )
            self._advance()
        seed, identity = found[position]
        payload = {"level": self.level, "seed": seed}
        return Task(id=identity, category=short_name(self.level), payload=payload)

    def _advance(self) -> None:
        """Look at the next seed."""
        self._game.reset(seed=self._seed)
        identity = task_id(self.level, self._game, grid_code(self._game))
        split = split_of(identity)
        self._seed += 1
        if split == "heldout":
            if self._repeats == MOST_REPEATS:
                return
            self._repeats = self._repeats + 1 if identity in self._heldout else 0
            if self._repeats:
                return
            self._heldout.add(identity)
        self._found[split].append((self._seed - 1, identity))


class BabyAITasks:
    """Tasks of several levels in equal shares: index i is task i // n of level i % n.

    A task is a level and a seed, known by the hash of the world that they make. Both splits walk
    the same seeds and keep what is theirs, so asking for high indices first costs the walk up to
    them (some 0.4 ms a candidate); then it is remembered.
    """

    name = "babyai"

    def __init__(self, options: BabyAIOptions | None = None) -> None:
        self.options = options or BabyAIOptions()
        self._strict = self.options.compat == "agentgym"
        terse = self.options.text == "terse"
        self._form: TextForm = Terse() if terse else AgentGym(strict=self._strict)
        self._walks = [_Walk(level) for level in self.options.levels]

    def instructions(self) -> str:
        return self._form.instructions()

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, index: int) -> Task:
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        position, level = divmod(index, len(self._walks))
        return self._walks[level].task(split, position)

    def environment(self) -> BabyAISession:
        return BabyAISession(self._form, strict=self._strict)

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._form.vocabulary()

    def relabel(self, observation: str, goal: str) -> str:
        """A first observation with another goal, such as one of `Step.achieved`. Raises
        `TaskError` when the text is not a first observation of this form."""
        return self._form.relabel(observation, goal)
