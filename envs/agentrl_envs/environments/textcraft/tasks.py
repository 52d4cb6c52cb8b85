"""The task set of TextCraft."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from random import Random

from agentrl_envs.env import Split, Task
from agentrl_envs.environments.textcraft import recipes_synthetic
from agentrl_envs.environments.textcraft.crafting import Workshop
from agentrl_envs.environments.textcraft.environment import TextCraft
from agentrl_envs.environments.textcraft.options import Recipes, TextCraftOptions
from agentrl_envs.environments.textcraft.payload import NAME, pose, problem_of
from agentrl_envs.environments.textcraft.published import PROMPT, TEST_COUNTS, PublishedTextCraft
from agentrl_envs.environments.textcraft.recipes import Recipe
from agentrl_envs.environments.textcraft.recipes_minecraft import minecraft_book
from agentrl_envs.environments.textcraft.solver import Planner
from agentrl_envs.environments.textcraft.text_form import (
    INSTRUCTIONS,
    AgentGymForm,
    Form,
    TerseForm,
)
from agentrl_envs.errors import TaskError
from agentrl_envs.task_list import interleaved

_LARGEST_TREE = 40
"""Recipes of a tree. The one goal beyond it, the painting, would list every dye and wool."""

_MOST_SHOWN: dict[Recipes, int] = {"minecraft": 64, "synthetic": 9}
"""Largest count that the terse form has a word for; larger ones are `many`."""

_ATTEMPTS = 500
"""Draws to find a held-out task that differs from those before it; about five suffice."""


class TextCraftTasks:
    """Crafting problems, by index.

    A task is a goal, the recipes shown (its tree and the distractors) and their order. Its split
    is decided by the goal with the recipes of its tree (`Book.split`), so no goal tree is in both
    splits, whatever is shown beside it. Of Minecraft's goals about one in five is held out: no
    training task asks for it, nor does `achieved` name it in one. It can still be seen there, as
    a distractor or on the way to something else, as sticks are.

    Training tasks have no end; the held-out ones are `options.heldout` tasks, all different.
    """

    name = NAME

    def __init__(self, options: TextCraftOptions | None = None) -> None:
        self.options = options or TextCraftOptions()
        most = _MOST_SHOWN[self.options.recipes]
        self._form: Form = AgentGymForm() if self.options.text == "agentgym" else TerseForm(most)

    def instructions(self) -> str:
        """The rules of the game; empty in the terse form."""
        if self.options.compat == "agentgym":
            return PROMPT
        return INSTRUCTIONS if self.options.text == "agentgym" else ""

    def size(self, split: Split) -> int | None:
        """The number of held-out tasks; training tasks have no end."""
        if split == "train":
            return None
        return len(self._heldout) if self.options.ids == "agentgym" else self.options.heldout

    def task(self, split: Split, index: int) -> Task:
        """The task at `index`. Raises `TaskError` for a negative one, and when the options leave
        no `heldout` different tasks."""
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        if split == "heldout":
            return self._heldout[index % len(self._heldout)]
        return self._draw(split, index, 0)[0]

    def environment(self) -> TextCraft | PublishedTextCraft:
        """A new session."""
        if self.options.compat == "agentgym":
            return PublishedTextCraft(self.options.turn_limit)
        return TextCraft(self._form, self.options.turn_limit)

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every word of the terse form; None in AgentGym's, whose messages quote the reply."""
        if not isinstance(self._form, TerseForm):
            return None
        numbers = (*(str(n) for n in range(1, self._form.most + 1)), self._form.many)
        return (*TerseForm.words, *numbers, *self._items())

    def relabel(self, first_observation_text: str, goal: str) -> str:
        """The first observation, had the goal been `goal`: a phrase as in `Step.achieved`.
        Raises `TaskError` when the text is no first observation of this form."""
        return self._form.relabel(first_observation_text, goal)

    def plan(self, task: Task) -> tuple[str, ...]:
        """The admissible actions of a shortest solution (see `solver`) of a task that a TextCraft
        task set dealt; empty if there is none. Raises `TaskError` for another payload."""
        workshop = Workshop(problem_of(task.payload))
        planner = Planner(workshop)
        moves = planner.moves()
        if moves is None:
            return ()
        actions: list[str] = []
        for item, count in sorted(moves[0].items()):
            for portion in _portions(count, [n for i, n in workshop.takings if i == item]):
                workshop.take(item, portion)
                actions.append(self._form.get(item, portion))
        for recipe, times in moves[1]:
            for _ in range(times):
                spent = workshop.spend(dict(recipe.needs)) or {}
                actions.append(self._form.craft(recipe, spent, workshop))
                workshop.craft(recipe.makes, None, spent)
        return tuple(actions)

    def goals(self, split: Split) -> tuple[str, ...]:
        """Minecraft: the goals of a split, in the order in which they are dealt."""
        return self._goals[split]

    @cached_property
    def _heldout(self) -> tuple[Task, ...]:
        if self.options.ids == "agentgym":
            sets = [TextCraftTasks(self.options.of_depth(*each)) for each in TEST_COUNTS.items()]
            return tuple(interleaved([each._heldout for each in sets]))
        tasks: dict[str, Task] = {}
        for index in range(self.options.heldout):
            attempt, task = 0, None
            while task is None or task.id in tasks:
                if attempt > _ATTEMPTS:
                    raise TaskError(
                        f"textcraft.options.heldout: after {len(tasks)} tasks no other was found in"
                        f" {_ATTEMPTS} attempts; ask for fewer, or give more items or distractors"
                    )
                task, attempt = self._draw("heldout", index, attempt)
            tasks[task.id] = task
        return tuple(tasks.values())

    def _draw(self, split: Split, index: int, attempt: int) -> tuple[Task, int]:
        """The task of the first attempt, from `attempt` on, to fall into `split`; and the next."""
        while True:
            # A string seeds by its SHA-512: the same on every machine, whatever the hash seed.
            rng = Random(f"{NAME}/{self.options.world}/{split}/{index}/{attempt}")
            attempt += 1
            if self.options.recipes == "minecraft":
                goals = self._goals[split]
                book, goal = minecraft_book(), goals[index % len(goals)]
                shown = [*book.tree(goal), *self._distractors(goal, rng)]
            else:
                depths = self.options.depths
                book, goal = recipes_synthetic.draw(self.options, depths[index % len(depths)], rng)
                shown = list(book.recipes)
            if book.split(goal) == split:
                rng.shuffle(shown)
                return pose(book, goal, shown).task(split), attempt

    def _distractors(self, goal: str, rng: Random) -> list[Recipe]:
        """Recipes that share an ingredient with the goal's tree, as far as there are any; at least
        one in ten, and one, comes from the whole book, so that no goal runs out of different
        tasks."""
        others, related = _minecraft_candidates(goal)
        wanted = self.options.distractors
        found = rng.sample(related, min(len(related), wanted - -(-wanted // 10)))
        chosen = set(found)
        rest = [recipe for recipe in others if recipe not in chosen]
        return found + rng.sample(rest, wanted - len(found))

    @cached_property
    def _goals(self) -> Mapping[Split, tuple[str, ...]]:
        """Minecraft's goals of the depths asked for, shuffled once."""
        book, rng = minecraft_book(), Random(NAME)
        goals = [goal for goal in book.by_item if len(book.tree(goal)) <= _LARGEST_TREE]
        rng.shuffle(goals)
        found: dict[Split, list[str]] = {"train": [], "heldout": []}
        for goal in goals:
            if book.depths[goal] in self.options.depths:
                found[book.split(goal)].append(goal)
        return {split: tuple(members) for split, members in found.items()}

    def _items(self) -> tuple[str, ...]:
        if self.options.recipes == "synthetic":
            raw, made = self.options.raw_items, self.options.made_items
            return (*recipes_synthetic.RAW[:raw], *recipes_synthetic.MADE[:made])
        recipes = minecraft_book().recipes
        named = {recipe.makes for recipe in recipes}
        return tuple(sorted(named.union(name for r in recipes for name, _ in r.needs)))


@cache
def _minecraft_candidates(goal: str) -> tuple[tuple[Recipe, ...], tuple[Recipe, ...]]:
    """The recipes outside the goal's tree, in the book's order, and those of them that share an
    ingredient with it. Cached: it takes longer than all else about a task."""
    book = minecraft_book()
    tree = set(book.tree(goal))
    names = {name for recipe in tree for name, _ in recipe.needs}
    others = tuple(recipe for recipe in book.recipes if recipe not in tree)
    return others, tuple(r for r in others if any(name in names for name, _ in r.needs))


def _portions(count: int, sizes: list[int]) -> list[int]:
    """Fewest of `sizes` that add up to `count` or more, the last as small as it can be."""
    most = max(sizes)
    whole, rest = divmod(count, most)
    return [most] * whole + ([min(size for size in sizes if size >= rest)] if rest else [])
