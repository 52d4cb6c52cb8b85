"""Conformance checker: does a task set keep the contract in `env`?

    report = check(CorridorTasks(), tasks=50, factory=CorridorTasks)
    assert report.passed, str(report)

A rule has a name, a sentence, and a function that plays and returns what violates the rule, or
None. Rules use nothing but the contract, so a remote task set is checked by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from agentrl_envs.conformance.play import Budget
from agentrl_envs.conformance.rules_ends import (
    ended_episodes_stay_ended,
    success_agrees_with_the_score,
)
from agentrl_envs.conformance.rules_processes import TaskSetFactory, processes_deal_the_same_tasks
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
    forged_tasks_are_refused,
    heldout_tasks_are_distinct,
    ids_are_content_hashes,
    no_content_is_in_both_splits,
    payloads_travel,
    sizes_are_right,
    tasks_are_in_their_split,
)
from agentrl_envs.conformance.rules_text import goals_are_relabeled, vocabularies_are_closed
from agentrl_envs.env import TaskSet
from agentrl_envs.errors import WorldError

ENVIRONMENT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    RecursionError,
)
"""What bugs of an environment raise: a finding, not the end of the check."""

RuleFunction = Callable[[TaskSet, Budget], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the contract."""

    name: str
    sentence: str
    violation: RuleFunction
    """What violates the rule, naming call and value; None: nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of one rule."""

    rule: Rule
    finding: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of all rules."""

    environment: str
    results: tuple[RuleResult, ...]

    @property
    def passed(self) -> bool:
        return all(result.finding is None for result in self.results)

    def failed(self) -> dict[str, str]:
        """Finding by rule name, of the rules that are broken."""
        return {
            result.rule.name: result.finding
            for result in self.results
            if result.finding is not None
        }

    def __str__(self) -> str:
        width = max(len(result.rule.name) for result in self.results)
        lines = [f"{self.environment}: {len(self.failed())} of {len(self.results)} rules broken"]
        for result in self.results:
            mark = "ok    " if result.finding is None else "BROKEN"
            lines.append(f"  {mark}  {result.rule.name:<{width}}  {result.rule.sentence}")
            if result.finding is not None:
                lines.append(f"          {'':<{width}}-> {result.finding}")
        return "\n".join(lines)


def check(
    task_set: TaskSet,
    *,
    tasks: int = 50,
    seed: int = 0,
    factory: TaskSetFactory | None = None,
    on_result: Callable[[RuleResult], None] = lambda _: None,
) -> Report:
    """Play `tasks` tasks of each split by every rule, with actions drawn from `seed`.

    `factory` creates the same task set in another process, for the rule `processes`; without it (a
    remote task set) that rule is left out. `on_result` is called after every rule. A call of the
    environment that hangs is logged (`calls.watch`)."""
    budget = Budget(task_count=tasks, seed=seed)
    results = []
    for rule in rules_for(factory):
        results.append(RuleResult(rule=rule, finding=_finding(rule, task_set, budget)))
        on_result(results[-1])
    return Report(environment=task_set.name, results=tuple(results))


def rules_for(factory: TaskSetFactory | None) -> tuple[Rule, ...]:
    """The rules of a check with this `factory`."""
    return RULES if factory is None else (*RULES, processes_rule(factory))


def processes_rule(factory: TaskSetFactory) -> Rule:
    """The rule that needs a second process."""
    return Rule(
        name="processes",
        sentence="Processes with other hash seeds deal the same tasks in the same order.",
        violation=partial(processes_deal_the_same_tasks, factory=factory),
    )


def _finding(rule: Rule, task_set: TaskSet, budget: Budget) -> str | None:
    try:
        return rule.violation(task_set, budget)
    except WorldError as error:
        return f"{type(error).__name__}: {error}"
    except ENVIRONMENT_ERRORS as error:
        return f"raised {type(error).__name__}: {error}"


RULES = (
    Rule(
        name="ids",
        sentence="A task id is the environment's name and 16 hex digits, one id per content.",
        violation=ids_are_content_hashes,
    ),
    Rule(
        name="split",
        sentence="A task is in the split that its id belongs to.",
        violation=tasks_are_in_their_split,
    ),
    Rule(
        name="same-task",
        sentence="An index always deals the same task.",
        violation=an_index_deals_one_task,
    ),
    Rule(
        name="size",
        sentence="A split of a given size repeats after that many tasks, and not before.",
        violation=sizes_are_right,
    ),
    Rule(
        name="distinct",
        sentence="Held-out tasks are distinct, and no id is in both splits.",
        violation=heldout_tasks_are_distinct,
    ),
    Rule(
        name="content",
        sentence="No task is in both splits under different ids.",
        violation=no_content_is_in_both_splits,
    ),
    Rule(
        name="payload",
        sentence="A payload is JSON and sets up the same task after a round trip through JSON.",
        violation=payloads_travel,
    ),
    Rule(
        name="foreign-task",
        sentence="A payload of another environment raises TaskError.",
        violation=foreign_payloads_are_refused,
    ),
    Rule(
        name="forged-task",
        sentence="A payload under the id of another task raises TaskError.",
        violation=forged_tasks_are_refused,
    ),
    Rule(
        name="answers",
        sentence="Observations, rewards in [0, 1] over an episode, ends and flags are valid.",
        violation=answers_keep_their_form,
    ),
    Rule(
        name="replay",
        sentence="The same actions have the same results, in a new session and in a used one.",
        violation=episodes_replay,
    ),
    Rule(
        name="isolation",
        sentence="Interleaved sessions do not affect each other.",
        violation=sessions_are_isolated,
    ),
    Rule(
        name="admissible",
        sentence="Where actions are listed there is at least one, and each is well-formed.",
        violation=admissible_actions_are_accepted,
    ),
    Rule(
        name="invalid-reply",
        sentence="A reply without an action gets a message, is not well-formed, changes nothing.",
        violation=invalid_replies_change_nothing,
    ),
    Rule(
        name="after-end",
        sentence="After the end of an episode there is no reward, and it stays ended.",
        violation=ended_episodes_stay_ended,
    ),
    Rule(
        name="success",
        sentence="Success agrees with the score: a success scores, a full score is a success.",
        violation=success_agrees_with_the_score,
    ),
    Rule(
        name="state",
        sentence="Where states are given, equal states offer equal actions.",
        violation=states_are_anchors,
    ),
    Rule(
        name="vocabulary",
        sentence="A closed vocabulary contains every word of instructions, observations, actions.",
        violation=vocabularies_are_closed,
    ),
    Rule(
        name="relabel",
        sentence="Achieved goals are texts; relabeling to one is deterministic.",
        violation=goals_are_relabeled,
    ),
    Rule(
        name="close",
        sentence="A session may be closed twice, and before its first task.",
        violation=sessions_close_twice,
    ),
)
