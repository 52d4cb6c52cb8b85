"""The environment contract as a program: does a task set keep what `env` promises?

    report = check(CorridorTasks(), tasks=50)
    assert report.passed, str(report)

Every rule has a name, a sentence, and a function that plays and returns what it found wrong, or
nothing. A rule sees the task set only through the contract, so a remote one is checked alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrl_envs.conformance.play import Effort
from agentrl_envs.conformance.rules_sessions import (
    admissible_actions_are_accepted,
    answers_keep_their_form,
    episodes_replay,
    invalid_replies_change_nothing,
    sessions_are_isolated,
    sessions_close_twice,
    states_are_anchors,
)
from agentrl_envs.conformance.rules_tasks import (
    an_index_deals_one_task,
    foreign_payloads_are_refused,
    heldout_tasks_are_distinct,
    ids_are_content_hashes,
    payloads_travel,
    tasks_are_in_their_split,
)
from agentrl_envs.conformance.rules_text import goals_are_rewritten, vocabularies_are_closed
from agentrl_envs.env import TaskSet
from agentrl_envs.errors import WorldError

RAISED = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, OSError,
          RuntimeError, SyntaxError, TypeError, ValueError, RecursionError)  # fmt: skip
"""What an environment's own mistakes raise: a finding, not the end of the check."""

Play = Callable[[TaskSet, Effort], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One promise of the contract."""

    name: str
    sentence: str
    broken: Play
    """What is wrong, naming call and value; None: nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one rule."""

    rule: Rule
    finding: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of all rules."""

    environment: str
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        return all(verdict.finding is None for verdict in self.verdicts)

    def failed(self) -> dict[str, str]:
        """Finding by rule name, of the rules that failed."""
        return {
            verdict.rule.name: verdict.finding
            for verdict in self.verdicts
            if verdict.finding is not None
        }

    def __str__(self) -> str:
        width = max(len(verdict.rule.name) for verdict in self.verdicts)
        lines = [f"{self.environment}: {len(self.failed())} of {len(self.verdicts)} rules broken"]
        for verdict in self.verdicts:
            mark = "ok    " if verdict.finding is None else "BROKEN"
            lines.append(f"  {mark}  {verdict.rule.name:<{width}}  {verdict.rule.sentence}")
            if verdict.finding is not None:
                lines.append(f"          {'':<{width}}-> {verdict.finding}")
        return "\n".join(lines)


def check(task_set: TaskSet, *, tasks: int = 50, seed: int = 0) -> Report:
    """Play `tasks` tasks of each split by every rule. Which actions are taken depends on `seed`."""
    effort = Effort(tasks=tasks, seed=seed)
    verdicts = tuple(Verdict(rule=rule, finding=_finding(rule, task_set, effort)) for rule in RULES)
    return Report(environment=task_set.name, verdicts=verdicts)


def _finding(rule: Rule, task_set: TaskSet, effort: Effort) -> str | None:
    try:
        return rule.broken(task_set, effort)
    except WorldError as error:
        return f"{type(error).__name__}: {error}"
    except RAISED as error:
        return f"raised {type(error).__name__}: {error}"


RULES = (
    Rule(
        name="ids",
        sentence="A task's id is its environment's name and 16 hex digits, one id per content.",
        broken=ids_are_content_hashes,
    ),
    Rule(
        name="split",
        sentence="A task is in the split that its id belongs to.",
        broken=tasks_are_in_their_split,
    ),
    Rule(
        name="same-task",
        sentence="The same index deals the same task, modulo the size of the split.",
        broken=an_index_deals_one_task,
    ),
    Rule(
        name="distinct",
        sentence="Held-out tasks are distinct, and none of them is in the other split.",
        broken=heldout_tasks_are_distinct,
    ),
    Rule(
        name="payload",
        sentence="A payload is JSON, and sets the same task up after a journey as JSON.",
        broken=payloads_travel,
    ),
    Rule(
        name="foreign-task",
        sentence="A payload of another environment raises TaskError.",
        broken=foreign_payloads_are_refused,
    ),
    Rule(
        name="answers",
        sentence="Observations, rewards in [0, 1] over an episode, ends and flags keep their form.",
        broken=answers_keep_their_form,
    ),
    Rule(
        name="replay",
        sentence="The same actions lead to the same answers, in a new session and in a used one.",
        broken=episodes_replay,
    ),
    Rule(
        name="isolation",
        sentence="Sessions that are played in turns do not disturb each other.",
        broken=sessions_are_isolated,
    ),
    Rule(
        name="admissible",
        sentence="Where actions are offered there is one to take, and each is well-formed.",
        broken=admissible_actions_are_accepted,
    ),
    Rule(
        name="invalid-reply",
        sentence="A reply without an action is told so, is not well-formed and changes nothing.",
        broken=invalid_replies_change_nothing,
    ),
    Rule(
        name="state",
        sentence="Where states are told, equal ones offer equal actions.",
        broken=states_are_anchors,
    ),
    Rule(
        name="vocabulary",
        sentence="A closed vocabulary holds every word of instructions, observations and actions.",
        broken=vocabularies_are_closed,
    ),
    Rule(
        name="relabel",
        sentence="What was achieved is told as texts; as a goal, it always gives the same opening.",
        broken=goals_are_rewritten,
    ),
    Rule(
        name="close",
        sentence="A session may be closed twice, and before its first task.",
        broken=sessions_close_twice,
    ),
)
