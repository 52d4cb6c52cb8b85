"""The task set of deep search."""

from __future__ import annotations

from functools import cached_property
from random import Random

from agentrl_envs.env import Split, Task
from agentrl_envs.environments.search.datasets import read_tasks
from agentrl_envs.environments.search.environment import SearchSession
from agentrl_envs.environments.search.facts import fact_world
from agentrl_envs.environments.search.options import SearchOptions
from agentrl_envs.environments.search.payload import NAME, chain_question
from agentrl_envs.environments.search.retrieval.open import open_retrievers
from agentrl_envs.environments.search.text_agentgym import AgentGymForm
from agentrl_envs.environments.search.text_form import TextForm
from agentrl_envs.environments.search.text_terse import TerseForm
from agentrl_envs.errors import TaskError

_ATTEMPTS = 500
"""Draws to find a question of a split that differs from those before it."""


class SearchTasks:
    """Questions, by index: of the files that the options name, or generated.

    Of published data sets a file belongs to the split that the options say, less the training
    questions that are also held out. A generated question belongs to the split of its content hash;
    there is no end of training tasks, and `options.heldout` different held-out ones."""

    name = NAME

    def __init__(self, options: SearchOptions | None = None) -> None:
        self.options = options or SearchOptions()
        own = self.options
        seeds = range(own.world, own.world + own.worlds) if own.generated else ()
        self._facts = [fact_world(seed, own.people, own.facts) for seed in seeds]
        self._retrievers = open_retrievers(own, self._facts)
        self._read = {} if own.generated else read_tasks(own.questions, own.items)
        self._form: TextForm = (
            TerseForm({facts.key: facts for facts in self._facts})
            if own.text == "terse"
            else AgentGymForm(strict=own.compat == "agentgym")
        )

    def instructions(self) -> str:
        """The protocol; empty in the terse form."""
        return self._form.instructions()

    def size(self, split: Split) -> int | None:
        """Number of questions; None for generated training questions."""
        if self._read:
            return len(self._read[split])
        return self.options.heldout if split == "heldout" else None

    def task(self, split: Split, index: int) -> Task:
        """The task at `index`. Raises `TaskError` for a negative one, and if there is none."""
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        if self._read:
            tasks = self._read[split]
            if not tasks:
                raise TaskError(
                    f"search.options.questions: no question is of split {split}; give such a file"
                )
            return tasks[index % len(tasks)]
        if split == "heldout":
            return self._heldout[index % len(self._heldout)]
        return self._draw(split, index, 0)[0]

    def environment(self) -> SearchSession:
        """A new session. All share the retrievers."""
        return SearchSession(self.options, self._form, self._retrievers)

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every word of the terse form; None in AgentGym's."""
        return self._form.vocabulary()

    def relabel(self, observation: str, goal: str) -> str:
        """The first observation, had the question been the chain `goal` (terse form only)."""
        return self._form.relabel(observation, goal)

    @property
    def waits(self) -> bool:
        """Whether a search waits for a service."""
        return self.options.retriever.kind != "bm25"

    @cached_property
    def _heldout(self) -> tuple[Task, ...]:
        tasks: dict[str, Task] = {}
        for index in range(self.options.heldout):
            attempt = 0
            task, attempt = self._draw("heldout", index, attempt)
            while task.id in tasks:
                if attempt > _ATTEMPTS:
                    raise TaskError(
                        f"search.options.heldout: after {len(tasks)} questions no other was found "
                        f"in {_ATTEMPTS} attempts; ask for fewer, or for more people or hops"
                    )
                task, attempt = self._draw("heldout", index, attempt)
            tasks[task.id] = task
        return tuple(tasks.values())

    def _draw(self, split: Split, index: int, attempt: int) -> tuple[Task, int]:
        """The question of the first attempt, from `attempt` on, that falls into `split`; and the
        next attempt."""
        world, turn = divmod(index, len(self.options.hops))
        hops, facts = self.options.hops[turn], self._facts[world % len(self._facts)]
        while attempt <= _ATTEMPTS:
            # A string seeds by its SHA-512: the same on every machine, whatever the hash seed.
            chain = facts.draw(hops, Random(f"{NAME}/{facts.key}/{split}/{index}/{attempt}"))
            attempt += 1
            if chain is None:
                break
            question = chain_question(facts, chain)
            if question.split == split:
                return question.task(split), attempt
        raise TaskError(
            f"search.options.people: no question of {hops} hops was found among {facts.people} "
            "people; use more people, or fewer hops or facts"
        )
