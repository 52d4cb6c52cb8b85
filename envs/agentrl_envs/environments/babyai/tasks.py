"""The task set of BabyAI."""

from __future__ import annotations

from agentrl_envs.env import Split, Task, split_of
from agentrl_envs.environments.babyai.environment import BabyAISession
from agentrl_envs.environments.babyai.level import Levels, build, grid_code, task_id
from agentrl_envs.environments.babyai.options import BabyAIOptions, short_name
from agentrl_envs.environments.babyai.published.prompt import PROMPT
from agentrl_envs.environments.babyai.published.session import PublishedSession
from agentrl_envs.environments.babyai.published.tasks import PublishedTasks
from agentrl_envs.environments.babyai.published.text import relabeled
from agentrl_envs.environments.babyai.text_agentgym import AgentGym
from agentrl_envs.environments.babyai.text_form import TextForm
from agentrl_envs.environments.babyai.text_terse import Terse
from agentrl_envs.errors import TaskError

MAX_REPEATS = 25
"""After this many known held-out worlds in a row the level is considered exhausted."""


class _SeedScan:
    """The seeds 0, 1, 2, ... of one level, assigned to splits. Held-out tasks are distinct;
    training tasks of a small level may repeat."""

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
            if split == "heldout" and self._repeats == MAX_REPEATS:
                raise TaskError(
                    f"index: {self.level} has {len(found)} different {split} tasks; ask for fewer"
                )
            self._advance()
        seed, identity = found[position]
        payload = {"level": self.level, "seed": seed}
        return Task(id=identity, category=short_name(self.level), payload=payload)

    def _advance(self) -> None:
        """Build the world of the next seed and assign it to its split."""
        self._game.reset(seed=self._seed)
        identity = task_id(self.level, self._game, grid_code(self._game))
        split = split_of(identity)
        self._seed += 1
        if split == "heldout":
            if self._repeats == MAX_REPEATS:
                return
            self._repeats = self._repeats + 1 if identity in self._heldout else 0
            if self._repeats:
                return
            self._heldout.add(identity)
        self._found[split].append((self._seed - 1, identity))


class BabyAITasks:
    """Tasks of several levels in equal shares: index i is task i // n of level i % n.

    A task is a level and a seed; its id is the hash of the world that they generate. Both splits
    scan the same seeds and keep their own, so the first request for a high index scans all seeds up
    to it (about 0.4 ms each); the results are cached.
    """

    name = "babyai"

    def __init__(self, options: BabyAIOptions | None = None) -> None:
        self.options = options or BabyAIOptions()
        self._form: TextForm = Terse() if self.options.text == "terse" else AgentGym()
        self._published = PublishedTasks() if self.options.ids == "agentgym" else None
        self._levels = Levels()
        self._scans = [_SeedScan(level) for level in self.options.levels]

    def instructions(self) -> str:
        if self.options.compat == "agentgym":
            return PROMPT
        return self._form.instructions()

    def size(self, split: Split) -> int | None:
        return self._published.size(split) if self._published else None

    def task(self, split: Split, index: int) -> Task:
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        if self._published:
            return self._published.task(split, index)
        position, level = divmod(index, len(self._scans))
        return self._scans[level].task(split, position)

    def numbered(self, number: int) -> Task:
        """The task that AgentGym's data set gives this number (its `data_idx`), whatever the
        options `ids` and `levels` say. Raises `TaskError` if there is none."""
        return PublishedTasks().numbered(number)

    def environment(self) -> BabyAISession | PublishedSession:
        if self.options.compat == "agentgym":
            return PublishedSession(self._levels)
        return BabyAISession(self._form, self._levels)

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._form.vocabulary()

    def relabel(self, observation: str, goal: str) -> str:
        """A first observation with another goal, such as one of `Step.achieved`. Raises
        `TaskError` if the text is not a first observation of this form."""
        if self.options.compat == "agentgym":
            return relabeled(observation, goal)
        return self._form.relabel(observation, goal)
