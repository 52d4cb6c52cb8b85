"""The environment contract: what an environment implements so that agents can be trained in it.

Two protocols. A `TaskSet` deals tasks by split and index, deterministically. An `Environment` plays
one task at a time. Actions and observations are text; the environment parses the agent's replies
itself and never evaluates them as code.

    tasks = registry.task_set("babyai", options)
    environment = tasks.environment()
    observation = environment.reset(tasks.task("train", 0))
    step = environment.step("go to red ball 1")
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

Split = Literal["train", "heldout"]

HELDOUT_BUCKETS = 5
"""One task id in this many belongs to the held-out split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task: the initial state and the goal of an episode."""

    id: str
    """Content hash (`content_id`) of everything that distinguishes this task; the same on every
    machine."""
    category: str
    """The category under which success is reported (a BabyAI level, a TextCraft depth)."""
    payload: Mapping[str, Any]
    """JSON. Sufficient for any server of the same environment to set the task up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the agent observes."""

    text: str
    """UTF-8 can encode it: it has no half of a surrogate pair."""
    admissible: tuple[str, ...] | None = None
    """Every action that is valid now, in a stable order, without duplicates. None: the environment
    does not list actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of one action."""

    observation: Observation
    reward: float
    """Reward of this action. The rewards of an episode sum to its score, in [0, 1]."""
    terminated: bool
    """The task has ended, solved or failed."""
    truncated: bool
    """The environment's own step limit was reached before the task ended."""
    wellformed: bool
    """The reply contained exactly one valid action."""
    success: bool
    """The task is solved, as the environment defines it."""
    raw_score: float
    """The score in the environment's own unit."""
    state: str | None = None
    """Hash of the hidden state, equal for equal states (the anchor state of GiGPO,
    arXiv 2505.10978). None: not provided."""
    achieved: tuple[str, ...] = ()
    """Goals that this action made true, in the form that `Relabels.relabel` takes."""


@runtime_checkable
class Environment(Protocol):
    """One session. Not thread-safe; reused through `reset`."""

    def reset(self, task: Task) -> Observation:
        """Set up `task` and return the first observation. Raises `TaskError` if the payload does
        not belong to this environment."""
        ...

    def step(self, action: str) -> Step:
        """Take the agent's whole reply. A reply without a valid action changes nothing, has
        `wellformed` False and is answered with a message that tells the agent what is wrong; it
        never raises."""
        ...

    def close(self) -> None:
        """Release the session's resources. May be called twice."""
        ...


@runtime_checkable
class TaskSet(Protocol):
    """A deterministic, content-addressed supply of tasks for one environment."""

    name: str

    def instructions(self) -> str:
        """The system prompt: what the agent is told before the first observation. May be empty.
        With `opening_exchange`, a user message and the reply to it instead."""
        ...

    def size(self, split: Split) -> int | None:
        """Number of tasks in the split; None: unbounded."""
        ...

    def task(self, split: Split, index: int) -> Task:
        """The task at `index` (modulo `size`, where that is not None). Held-out tasks are distinct,
        no content is in both splits, and an index gives the same task on every machine."""
        ...

    def environment(self) -> Environment:
        """A new session. A server, and a run whose environment `Waits`, call this in several
        threads at the same time."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every whitespace-separated word that instructions, observations and actions can contain,
        for models that are trained from scratch. None: open vocabulary."""
        ...


@runtime_checkable
class Numbered(Protocol):
    """Optional capability of a task set: tasks by the numbers of a published data set."""

    def numbered(self, number: int) -> Task:
        """The task that the data set gives this number. Raises `TaskError` if there is none."""
        ...


@runtime_checkable
class Relabels(Protocol):
    """Optional capability of a task set: replace the goal of an observation, for hindsight
    relabeling (arXiv 1707.01495)."""

    def relabel(self, observation: str, goal: str, /) -> str:
        """The first observation of an episode with `goal` in place of its own goal, such as one of
        `Step.achieved`. A pure function. Raises `TaskError` if `observation` is not a first
        observation."""
        ...


@runtime_checkable
class Waits(Protocol):
    """Optional property of a task set: whether its environments wait for another program, such as
    a search service, so that their calls belong in threads. Without it they do not."""

    @property
    def waits(self) -> bool: ...


@runtime_checkable
class StartsPrograms(Protocol):
    """Optional capability of a task set: start the programs that its sessions share, such as a
    browser, before there is a session. A server is ready only then, and a run begins only then."""

    def start_programs(self) -> None:
        """Start them, if they do not run yet. Raises `OptionError` if one does not start; the
        message names it, the reason and the fix."""
        ...


def start_programs(task_set: TaskSet) -> None:
    """Start the programs that the sessions of a task set share, if it has any. Raises
    `OptionError` if one does not start."""
    if isinstance(task_set, StartsPrograms):
        task_set.start_programs()


_REPLY_MARK = "\x1e"
"""ASCII record separator: precedes the reply in instructions that are an exchange."""


def opening_exchange(message: str, reply: str) -> str:
    """Instructions that are given as a user message and its `reply` by the assistant, in place of
    a system prompt: the form of AgentGym's conversations."""
    return f"{message}{_REPLY_MARK}{reply}"


def split_exchange(instructions: str) -> tuple[str, str | None]:
    """The text of instructions, and the reply if they are an `opening_exchange`, else None."""
    message, mark, reply = instructions.partition(_REPLY_MARK)
    return message, reply if mark else None


def content_id(environment: str, content: Any) -> str:
    """`<environment>-<16 hex digits>`: a hash of `content` as canonical JSON."""
    text = json.dumps([environment, content], sort_keys=True, separators=(",", ":"))
    return f"{environment}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def split_of(task_id: str) -> Split:
    """The split that a task id belongs to. A function of the content hash alone, so the splits are
    disjoint by construction whatever else is generated later."""
    digest = int(task_id.rsplit("-", 1)[1], 16)
    return "heldout" if digest % HELDOUT_BUCKETS == 0 else "train"


def in_split(task_id: str, split: Split) -> str:
    """A task id whose content hash belongs to `split`: `task_id`, hashed again until it does. For
    tasks whose split is given from outside, such as those of published data sets."""
    while split_of(task_id) != split:
        task_id = content_id(task_id.rpartition("-")[0], task_id)
    return task_id
