"""The environment contract: what a world must offer so that an agent can be trained in it.

Two small protocols. A `TaskSet` deals tasks, by split and index, for ever the same; an
`Environment` plays one task at a time. Text goes in and text comes out; what the text means is the
environment's own affair, and it parses it: nothing an agent writes is ever evaluated.

    tasks = registry.task_set("babyai", options)
    env = tasks.environment()
    seen = env.reset(tasks.task("train", 0))
    step = env.step("go to red ball 1")
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Split = Literal["train", "heldout"]

HELDOUT_BUCKETS = 5
"""One content hash in this many is held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem to solve."""

    id: str
    """Content hash: `content_id` of everything that makes this task this task. Stable
    everywhere."""
    category: str
    """What success is reported by (a BabyAI level, a TextCraft depth)."""
    payload: Mapping[str, Any]
    """JSON. Enough for any server of the same environment to set the task up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the agent sees."""

    text: str
    admissible: tuple[str, ...] | None = None
    """Every action text that is valid now, in a stable order, without repeats. None: not
    offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one action led to."""

    observation: Observation
    reward: float
    """Earned by this action. Over an episode the rewards add up to the score, in [0, 1]."""
    terminated: bool
    """The task has ended, solved or failed for good."""
    truncated: bool
    """The environment's own limit was reached before the task ended."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON. `wellformed` (bool): the reply held one valid action. `success` (bool): the task
    is solved as the environment defines it. `raw_score` (float): the score in the environment's
    own unit. `state` (str, optional): a hash of the hidden state, equal for equal states (GiGPO's
    anchor). `achieved` (list of str, optional): goals that the action made true, as `relabel`
    takes them."""


@runtime_checkable
class Environment(Protocol):
    """One session. Not thread-safe; used again and again through `reset`."""

    def reset(self, task: Task) -> Observation:
        """Set the task up. Raises `TaskError` when the payload is not one of this environment's."""
        ...

    def step(self, action: str) -> Step:
        """Take the agent's reply, whole. A reply without a valid action changes nothing, is not
        `wellformed` and gets a message that an agent can learn from; it never raises."""
        ...

    def close(self) -> None:
        """Give back what the session holds. May be called twice."""
        ...


@runtime_checkable
class TaskSet(Protocol):
    """A deterministic, content-addressed supply of tasks for one environment."""

    name: str

    def instructions(self) -> str:
        """What an agent is told once, before the first observation. May be empty."""
        ...

    def size(self, split: Split) -> int | None:
        """How many tasks there are; None: no end."""
        ...

    def task(self, split: Split, index: int) -> Task:
        """The task at `index` (taken modulo `size` where that is not None). Held-out tasks are
        distinct; no content is in both splits. Same index, same task, on every machine."""
        ...

    def environment(self) -> Environment:
        """A new session."""
        ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """Every word that observations, instructions and actions can hold, split at white space,
        for models that are trained from scratch. None: open vocabulary."""
        ...


@runtime_checkable
class Relabels(Protocol):
    """What a task set may also offer: goals rewritten, for learning in hindsight."""

    def relabel(self, observation: str, goal: str, /) -> str:
        """A first observation with another goal, such as one of `info["achieved"]`. A function of
        its arguments. Raises `TaskError` when the text is not a first observation."""
        ...


def content_id(environment: str, content: Any) -> str:
    """`<environment>-<16 hex digits>` over canonical JSON."""
    text = json.dumps([environment, content], sort_keys=True, separators=(",", ":"))
    return f"{environment}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def split_of(task_id: str) -> Split:
    """The split that a content hash belongs to. A function of content alone, so the two splits are
    disjoint by construction and stay so whatever is generated later."""
    digest = int(task_id.rsplit("-", 1)[1], 16)
    return "heldout" if digest % HELDOUT_BUCKETS == 0 else "train"
