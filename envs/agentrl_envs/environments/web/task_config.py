"""WebArena's JSON form of a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agentrl_envs.env import Split, Task, content_id, in_split, split_of
from agentrl_envs.environments.web.locators import parse_locator
from agentrl_envs.errors import TaskError

NAME = "web"

TABS = " |AND| "
"""Separates the start addresses of a task."""

OR = " |OR| "
"""Separates alternatives."""

SPLITS: tuple[Split, ...] = ("train", "heldout")


class ReferenceAnswers(BaseModel):
    """What the answer of a `string_match` task is compared with. All that are given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exact_match: str | None = None
    must_include: tuple[str, ...] = ()
    fuzzy_match: tuple[str, ...] = ()
    """Answers of the same meaning, which a judge model compares. `N/A`: the task cannot be done."""

    @field_validator("fuzzy_match", "must_include", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


class RequiredContents(BaseModel):
    """What an element must contain. ` |OR| ` separates alternatives."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    exact_match: str | None = None
    must_include: tuple[str, ...] = ()


class ProgramHtml(BaseModel):
    """One element that is looked at when the agent has stopped."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    """Where to look: `last`, an address, or `func:` with a helper's name."""
    locator: str = ""
    prep_actions: tuple[str, ...] | None = None
    """JavaScript that is to run before."""
    required_contents: RequiredContents


class Evaluation(BaseModel):
    """How a task is graded: the product of its evaluators."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    eval_types: tuple[Literal["string_match", "url_match", "program_html"], ...] = Field(
        min_length=1
    )
    reference_answers: ReferenceAnswers | None = None
    string_note: str | None = None
    """Why the task cannot be done, where the reference is `N/A`."""
    reference_url: str | None = None
    """Addresses, separated by ` |OR| `. Empty: none."""
    url_note: str | None = None
    program_html: tuple[ProgramHtml, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """The alternatives of `reference_url`."""
        return tuple(self.reference_url.split(OR)) if self.reference_url else ()


class TaskConfig(BaseModel):
    """A task. Fields that WebArena has and AgentRL does not need are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sites: tuple[str, ...] = Field(min_length=1)
    intent: str = Field(min_length=1)
    instantiation_dict: Mapping[str, Any] = Field(default_factory=dict)
    """What the intent's template was filled with."""
    start_url: str
    """Pages to open; ` |AND| ` separates tabs."""
    require_login: bool = False
    storage_state: str | None = None
    """Not None: the task starts logged in to its sites."""
    evaluation: Evaluation = Field(alias="eval")

    @field_validator("instantiation_dict", mode="before")
    @classmethod
    def _may_be_null(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def start_urls(self) -> tuple[str, ...]:
        """The address of each tab."""
        return tuple(self.start_url.split(TABS))

    @property
    def phrases(self) -> tuple[str, ...]:
        """The parts of the intent that a template was filled with, in its order; of those that
        begin at the same place the shorter one is first."""
        values = {str(value) for value in self.instantiation_dict.values()}
        found = (value for value in values if value and value in self.intent)
        # Without the length, the order of a set decides ties: it differs between processes.
        return tuple(sorted(found, key=lambda value: (self.intent.index(value), len(value))))

    @property
    def asks_for_a_page(self) -> bool:
        """Whether the page at the end decides alone, whatever else was done."""
        return self.evaluation.eval_types == ("url_match",)

    @property
    def logs_in(self) -> bool:
        return self.storage_state is not None


def unsupported(config: TaskConfig, *, judge: bool) -> str | None:
    """Why a task cannot be graded here; None: it can. `judge`: a judge model is configured."""
    evaluation = config.evaluation
    for target in evaluation.program_html:
        if target.url.startswith("func:") or target.locator.startswith("func:"):
            return "eval.program_html: WebArena's func: helpers are not available"
        if target.prep_actions:
            return "eval.program_html: prep_actions, which are JavaScript, are not run"
        try:
            parse_locator(target.locator)
        except TaskError as error:
            return f"eval.program_html: {error}"
    if evaluation.reference_answers and evaluation.reference_answers.fuzzy_match and not judge:
        return "eval.reference_answers.fuzzy_match: set the option judge"
    return None


def category_of(config: Mapping[str, Any]) -> str:
    """The category of a task: its site, or `mixed`."""
    sites = config["sites"]
    return str(sites[0]) if len(sites) == 1 else "mixed"


def task_of(
    config: Mapping[str, Any], category: str | None = None, *, split: Split | None = None
) -> Task:
    """The task of a JSON object. Its id is a hash of all but `task_id`, which is only a number, in
    `split`; None: in that of its goal (`goal_split`). Raises `TaskError` if it is not in WebArena's
    form."""
    _parse(config, f"task {config.get('task_id', '?')}")
    payload = dict(config)
    return Task(
        id=in_split(_id_of(payload), split or goal_split(payload)),
        category=category or category_of(config),
        payload={"config": payload},
    )


def goal_split(config: Mapping[str, Any]) -> Split:
    """The split that the hash of a task's sites and intent decides: tasks that differ in their
    start page, or are on other contents of the sites, are in the same one."""
    return split_of(content_id(NAME, [config[name] for name in ("sites", "intent")]))


def goals_by_address(configs: Iterable[TaskConfig]) -> dict[str, tuple[str, ...]]:
    """Intents of the tasks that are solved on a page whatever else was done, by the page's address:
    those that `url_match` alone grades."""
    goals: dict[str, dict[str, None]] = {}
    for config in configs:
        if config.asks_for_a_page:
            address = config.evaluation.reference_url or ""
            goals.setdefault(address, {})[config.intent] = None
    return {address: tuple(intents) for address, intents in goals.items()}


def config_of(task: Task) -> TaskConfig:
    """The content of a task. Raises `TaskError` if the payload is not that of the task's id."""
    config = task.payload.get("config")
    if not isinstance(config, Mapping):
        raise TaskError(f"task {task.id}: the payload has no config; use a task of {NAME}")
    parsed = _parse(config, f"task {task.id}")
    if task.id not in {in_split(_id_of(config), split) for split in SPLITS}:
        raise TaskError(f"task {task.id}: the payload is another task's; use a task of {NAME}")
    return parsed


def _id_of(config: Mapping[str, Any]) -> str:
    return content_id(NAME, {key: value for key, value in config.items() if key != "task_id"})


def _parse(config: Mapping[str, Any], what: str) -> TaskConfig:
    try:
        return TaskConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise TaskError(f"{what}: {field}: {reason}; see WebArena's form of tasks") from None
