"""The task set of web navigation."""

from __future__ import annotations

import threading
from functools import cached_property

from agentrl_envs.browser.chromium import host_of
from agentrl_envs.browser.thread import shared_browser, start_browser
from agentrl_envs.env import Split, Task, split_of
from agentrl_envs.environments.web.environment import Goals, WebEnvironment
from agentrl_envs.environments.web.evaluators import Judge
from agentrl_envs.environments.web.login import Logins
from agentrl_envs.environments.web.options import WebOptions
from agentrl_envs.environments.web.scene import TextForm
from agentrl_envs.environments.web.sites import Addresses, sites_of
from agentrl_envs.environments.web.task_config import NAME, TaskConfig, config_of, goals_by_address
from agentrl_envs.environments.web.text_agentgym import AgentGymForm
from agentrl_envs.environments.web.text_terse import TerseForm
from agentrl_envs.errors import TaskError

_MAKING_LOGINS = threading.Lock()


class WebTasks:
    """Tasks on web sites, by index. The hash of a task's goal decides its split, unless all are
    held out; both splits are finite."""

    name = NAME

    def __init__(self, options: WebOptions | None = None) -> None:
        self.options = options or WebOptions()
        self._sites = sites_of(self.options)

    def instructions(self) -> str:
        """The actions and their form; empty in the terse form."""
        return self._form.instructions()

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every word of the terse form on this package's sites; None: open."""
        return self._form.vocabulary()

    def size(self, split: Split) -> int | None:
        return len(self._tasks[split])

    def task(self, split: Split, index: int) -> Task:
        """The task at `index`. Raises `TaskError` for a negative one, and if the split is empty."""
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        tasks = self._tasks[split]
        if not tasks and self.options.evaluation_only and split == "train":
            raise TaskError(
                "web.options.evaluation_only: every task is held out; set it to false to train"
            )
        if not tasks:
            raise TaskError(f"web.options.tasks: no task falls into {split}; give more tasks")
        return tasks[index % len(tasks)]

    def start_programs(self) -> None:
        """Start the browser, and the sites if this process serves them."""
        start_browser(self._hosts)

    def environment(self) -> WebEnvironment:
        """A new session. Starts the sites if this process serves them, but no browser."""
        thread = shared_browser(self._hosts)
        with _MAKING_LOGINS:  # sessions are made in several threads
            if self._logins is None:
                self._logins = Logins(thread, self._addresses, self._sites.accounts())
        return WebEnvironment(
            thread,
            self._addresses,
            self._logins,
            self._form,
            self._judge,
            self.options,
            self._goals_of,
        )

    def relabel(self, observation: str, goal: str) -> str:
        """The first observation, had the intent been `goal`. Raises `TaskError` if the text is no
        first observation of the terse form."""
        if not isinstance(self._form, TerseForm):
            raise TaskError("web.options.text: goals are replaced in the terse form only")
        return self._form.relabel(observation, goal)

    _logins: Logins | None = None

    @cached_property
    def _addresses(self) -> Addresses:
        return self._sites.addresses()

    @cached_property
    def _judge(self) -> Judge | None:
        """The judge of all sessions, so that each parameter is refused once."""
        if self.options.judge is None:
            return None
        # The package of the endpoint's client takes as long to import as all else here.
        from agentrl_envs.environments.web.judge import ModelJudge

        return ModelJudge(self.options.judge)

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(host_of(url) for url in self._addresses.sites.values())

    @cached_property
    def _form(self) -> TextForm:
        if self.options.text == "terse":
            return TerseForm(self._sites.words())
        return AgentGymForm(strict=self.options.compat == "agentgym")

    def _goals_of(self, config: TaskConfig) -> Goals:
        """The intents of the training tasks on the same content, for relabelling."""
        return self._goals.get(self._sites.content(config), {})

    @cached_property
    def _goals(self) -> dict[int, Goals]:
        """Intents of training tasks by content; empty in AgentGym's form."""
        if not isinstance(self._form, TerseForm):
            return {}
        by_content: dict[int, list[TaskConfig]] = {}
        for config in map(config_of, self._tasks["train"]):
            by_content.setdefault(self._sites.content(config), []).append(config)
        return {content: self._public(configs) for content, configs in by_content.items()}

    def _public(self, configs: list[TaskConfig]) -> Goals:
        goals = goals_by_address(configs).items()
        real = ((self._addresses.real(address), intents) for address, intents in goals)
        return {self._addresses.public(address): intents for address, intents in real}

    @cached_property
    def _tasks(self) -> dict[Split, list[Task]]:
        """The tasks of each split, in the order of their source, without repeats."""
        tasks: dict[Split, dict[str, Task]] = {"train": {}, "heldout": {}}
        for task in self._sites.tasks():
            tasks[split_of(task.id)].setdefault(task.id, task)
        return {split: list(found.values()) for split, found in tasks.items()}
