"""The task set of MiniWoB++."""

from __future__ import annotations

from functools import cached_property
from itertools import chain, zip_longest

from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import shared_browser, start_browser
from agentrl_envs.env import Split, Task, split_of
from agentrl_envs.environments.miniwob.environment import HEIGHT, WIDTH, MiniWobEnvironment
from agentrl_envs.environments.miniwob.options import MiniWobOptions
from agentrl_envs.environments.miniwob.pages import CONTENTS, NAME, page_url, task_id
from agentrl_envs.environments.web.scene import TextForm
from agentrl_envs.environments.web.text_agentgym import AgentGymForm
from agentrl_envs.environments.web.text_terse import TerseForm
from agentrl_envs.errors import TaskError

DRAW_TIMEOUT_S = 120.0


class MiniWobTasks:
    """Pages and seeds, one page after the other. A task's content decides its split: the
    instruction and the texts of the page, so that two seeds that look alike are one task."""

    name = NAME

    def __init__(self, options: MiniWobOptions | None = None) -> None:
        self.options = options or MiniWobOptions()
        for task in self.options.tasks:
            page_url(task)
        terse = self.options.text == "terse"
        self._form: TextForm = TerseForm(None) if terse else AgentGymForm(strict=False)

    def instructions(self) -> str:
        """The actions and their form; empty in the terse form."""
        return self._form.instructions()

    def vocabulary(self) -> None:
        """Open: MiniWoB++'s texts are."""
        return

    def size(self, split: Split) -> int | None:
        return len(self._tasks[split])

    def task(self, split: Split, index: int) -> Task:
        """The task at `index`. Raises `TaskError` for a negative one, and if the split is empty."""
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        tasks = self._tasks[split]
        if not tasks:
            raise TaskError(f"miniwob.options.tasks: no task falls into {split}; name more pages")
        return tasks[index % len(tasks)]

    def start_programs(self) -> None:
        """Start the browser."""
        start_browser(frozenset())

    def environment(self) -> MiniWobEnvironment:
        """A new session."""
        return MiniWobEnvironment(shared_browser(frozenset()), self._form, self.options)

    @cached_property
    def _tasks(self) -> dict[Split, list[Task]]:
        """The distinct tasks of each split, one of each page in turn."""
        thread = shared_browser(frozenset())
        drawn = thread.run(self._draw(BrowserSession(thread, WIDTH, HEIGHT)), DRAW_TIMEOUT_S)
        found: dict[Split, list[list[Task]]] = {"train": [], "heldout": []}
        for tasks in drawn:
            heldout = [task for task in tasks if split_of(task.id) == "heldout"]
            found["heldout"].append(heldout[: self.options.heldout])
            found["train"].append([task for task in tasks if split_of(task.id) == "train"])
        return {
            split: [task for task in chain.from_iterable(zip_longest(*each)) if task is not None]
            for split, each in found.items()
        }

    async def _draw(self, browser: BrowserSession) -> list[list[Task]]:
        """The tasks of each page, by its seeds, without repeats of their content."""
        drawn = []
        seeds = list(range(self.options.seeds))
        try:
            for name in self.options.tasks:
                await browser.begin([page_url(name)], None)
                contents = await browser.page.evaluate(CONTENTS, seeds)
                tasks: dict[str, Task] = {}
                for seed, content in zip(seeds, contents, strict=True):
                    number = task_id(name, content)
                    payload = {"task": name, "seed": seed}
                    tasks.setdefault(number, Task(id=number, category=name, payload=payload))
                drawn.append(list(tasks.values()))
        finally:
            await browser.end()
        return drawn
