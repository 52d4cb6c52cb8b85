"""For every rule a task set that violates it, and the finding that reports the violation."""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from process_dependent_tasks import HashSeedOrder, RaisesInOtherProcesses

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.conformance.check import RULES, check
from agentrl_envs.env import Observation, Split, Step, Task, content_id, split_of
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorOptions, CorridorTasks
from agentrl_envs.errors import TaskError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


class AlteredEnvironment:
    """A corridor environment whose observations or steps are altered by a function."""

    def __init__(
        self,
        reset: Callable[[Observation, Task], Observation] = lambda seen, task: seen,
        step: Callable[[Step, str], Step] = lambda step, action: step,
    ) -> None:
        self.environment = CorridorEnvironment()
        self.alter_reset, self.alter_step = reset, step

    def reset(self, task: Task) -> Observation:
        return self.alter_reset(self.environment.reset(task), task)

    def step(self, action: str) -> Step:
        return self.alter_step(self.environment.step(action), action)

    def close(self) -> None:
        self.environment.close()


class AlteredTasks(CorridorTasks):
    """Corridor tasks whose steps are altered by `step`."""

    def __init__(self, step: Callable[[Step, str], Step]) -> None:
        super().__init__()
        self.alter = step

    def environment(self):
        return AlteredEnvironment(step=self.alter)


class RandomIds(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, id=f"corridor-{index}")


class SplitByIndex(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task("train" if index % 2 else "heldout", index)


class ChangingTasks(CorridorTasks):
    generated = 0

    def task(self, split: Split, index: int) -> Task:
        self.generated += 1
        return super().task(split, index + self.generated)


class RepeatingTasks(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task(split, index // 2)


class TuplePayloads(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, payload={**task.payload, "way": ("a", "b")})

    def environment(self):
        class IgnoresWay(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                known = {key: value for key, value in task.payload.items() if key != "way"}
                return super().reset(replace(task, payload=known))

        return IgnoresWay()


class AcceptsEveryPayload(CorridorTasks):
    def environment(self):
        class AcceptsPayload(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                try:
                    return super().reset(task)
                except TaskError:
                    return Observation(text="come in")

        return AcceptsPayload()


class SharedEnvironment(CorridorTasks):
    """All sessions share one environment."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = CorridorEnvironment()

    def environment(self):
        return self.shared


class KeepsStateAcrossResets(CorridorTasks):
    """A reused session shows how many episodes it has played."""

    def environment(self):
        state = {"episodes": 0}

        def reset(seen: Observation, task: Task) -> Observation:
            state["episodes"] += 1
            return replace(seen, text=f"{seen.text} {min(state['episodes'], 8)}")

        return AlteredEnvironment(reset=reset)


class RaisesOnSecondClose(CorridorTasks):
    def environment(self):
        class SingleClose(CorridorEnvironment):
            closed = False

            def close(self) -> None:
                if self.closed:
                    raise RuntimeError("closed already")
                self.closed = True

        return SingleClose()


class RaisesOnInvalidReply(CorridorTasks):
    def environment(self):
        class RaisesKeyError(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if "xyzzy" in action:
                    raise KeyError(action)
                return super().step(action)

        return RaisesKeyError()


class StepsOnInvalidReply(CorridorTasks):
    """Reports an invalid reply as not well-formed, but executes a step."""

    def environment(self):
        class StepsAnyway(CorridorEnvironment):
            def step(self, action: str) -> Step:
                answer = super().step(action)
                if not answer.wellformed and answer.observation.admissible:
                    super().step(answer.observation.admissible[0])
                return answer

        return StepsAnyway()


class SmallVocabulary(CorridorTasks):
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(word for word in super().vocabulary() if word != "jams")


class RelabelsNondeterministically(AlteredTasks):
    """Returns a different text on every call."""

    rewritten = 0

    def relabel(self, observation: str, goal: str) -> str:
        self.rewritten += 1
        return f"{observation} {goal} {self.rewritten}"


def achieves_a_goal(step: Step, action: str) -> Step:
    return replace(step, achieved=("open the door",))


def achieves_a_number(step: Step, action: str) -> Step:
    return replace(step, achieved=(7,))


def constant_state(step: Step, action: str) -> Step:
    return replace(step, state="always the same")


def offers_an_invalid_action(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=("left", "right")))


def offers_nothing(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=()))


def always_wellformed(step: Step, action: str) -> Step:
    return replace(step, wellformed=True)


class NoncePayloads(CorridorTasks):
    """The same corridors in both splits; a nonce makes their ids different."""

    def task(self, split: Split, index: int) -> Task:
        task = super().task("train", index)
        for nonce in itertools.count():
            payload = {**task.payload, "nonce": nonce}
            task_id = content_id("corridor", payload)
            if split_of(task_id) == split:
                return replace(task, id=task_id, payload=payload)
        raise AssertionError

    def environment(self):
        class IgnoresNonce(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                if task.id != content_id("corridor", dict(task.payload)):
                    raise TaskError("another task's id")
                payload = {k: v for k, v in task.payload.items() if k != "nonce"}
                known = replace(task, id=content_id("corridor", payload), payload=payload)
                return super().reset(known)

        return IgnoresNonce()


class AcceptsEveryId(CorridorTasks):
    def environment(self):
        class AcceptsId(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                return super().reset(replace(task, id=content_id("corridor", dict(task.payload))))

        return AcceptsId()


class DoubleSize(CorridorTasks):
    def size(self, split: Split) -> int:
        return 2 * super().size(split)


class SizePlusOne(CorridorTasks):
    def size(self, split: Split) -> int:
        return super().size(split) + 1


class RewardsAfterEnd(CorridorTasks):
    """Repeating the last action after the end is rewarded."""

    def environment(self):
        over: list[bool] = [False]

        def step(step: Step, action: str) -> Step:
            rewarded = replace(step, reward=1.0) if over[0] else step
            over[0] = step.terminated or step.truncated
            return rewarded

        return AlteredEnvironment(step=step)


class ContinuesAfterEnd(CorridorTasks):
    def environment(self):
        over: list[bool] = [False]

        def step(step: Step, action: str) -> Step:
            continued = replace(step, terminated=False, truncated=False) if over[0] else step
            over[0] = over[0] or step.terminated or step.truncated
            return continued

        def reset(seen: Observation, task: Task) -> Observation:
            over[0] = False
            return seen

        return AlteredEnvironment(reset=reset, step=step)


class RefusesAfterFiveTurns(CorridorTasks):
    """Refuses every action from the sixth turn on."""

    def __init__(self) -> None:
        super().__init__(CorridorOptions(turns=12))

    def environment(self):
        turns = [0]

        def reset(seen: Observation, task: Task) -> Observation:
            turns[0] = 0
            return seen

        def step(step: Step, action: str) -> Step:
            turns[0] += 1
            return replace(step, wellformed=False) if turns[0] > 5 else step

        altered = AlteredEnvironment(reset=reset, step=step)
        altered.environment = CorridorEnvironment(turns=12)
        return altered


class RarelyNondeterministic(CorridorTasks):
    """One reset in 150 returns another observation."""

    resets = 0

    def environment(self):
        def reset(seen: Observation, task: Task) -> Observation:
            self.resets += 1
            return replace(seen, text="fog") if self.resets % 150 == 0 else seen

        return AlteredEnvironment(reset=reset)


def success_without_score(step: Step, action: str) -> Step:
    ended = step.terminated or step.truncated
    return replace(step, success=True, reward=0.0) if ended else step


def score_without_success(step: Step, action: str) -> Step:
    return replace(step, success=False)


def success_is_none(step: Step, action: str) -> Step:
    return replace(step, success=None)


BROKEN_TASK_SETS = [
    (RandomIds(), "ids", "expected corridor-<16 hex digits>"),
    (SplitByIndex(), "split", "but its hash is in"),
    (ChangingTasks(), "same-task", "then corridor-"),
    (RepeatingTasks(), "distinct", "held-out tasks 0 and 1 are both"),
    (TuplePayloads(), "payload", "not the same after a round trip"),
    (AcceptsEveryPayload(), "foreign-task", "shows 'come in'"),
    (AlteredTasks(lambda step, action: replace(step, reward=0.6)), "answers", "reward is 0.6"),
    (AlteredTasks(lambda step, action: replace(step, reward=-0.5)), "answers", "reward is -0.5"),
    (
        AlteredTasks(lambda step, action: replace(step, terminated=True, truncated=True)),
        "answers",
        "truncated is True",
    ),
    (AlteredTasks(success_is_none), "answers", "success is None"),
    (KeepsStateAcrossResets(), "replay", "in the same session again"),
    (SharedEnvironment(), "isolation", "among"),
    (AlteredTasks(offers_an_invalid_action), "admissible", "admissible but not well-formed"),
    (AlteredTasks(offers_nothing), "admissible", "nothing is admissible"),
    (RaisesOnInvalidReply(), "invalid-reply", "raised KeyError"),
    (AlteredTasks(always_wellformed), "invalid-reply", "has wellformed True"),
    (StepsOnInvalidReply(), "invalid-reply", "changed what is admissible"),
    (AlteredTasks(constant_state), "state", "always the same offers"),
    (SmallVocabulary(), "vocabulary", "'jams' is not in the vocabulary"),
    (RelabelsNondeterministically(achieves_a_goal), "relabel", "open the door 1', then"),
    (AlteredTasks(achieves_a_number), "relabel", "achieved is (7,)"),
    (NoncePayloads(), "content", "are played alike"),
    (AcceptsEveryId(), "forged-task", "under the id"),
    (DoubleSize(), "size", "repeat those from 0 on, though there are 194"),
    (SizePlusOne(), "size", "though there are"),
    (RewardsAfterEnd(), "after-end", "after the end earned 1.0"),
    (ContinuesAfterEnd(), "after-end", "reopened the episode"),
    (RefusesAfterFiveTurns(), "admissible", "admissible but not well-formed after"),
    (RarelyNondeterministic(), "replay", "reset shows 'fog'"),
    (AlteredTasks(success_without_score), "success", "success is true with a score of 0"),
    (AlteredTasks(score_without_success), "success", "success is false with a score of 1"),
    (RaisesOnSecondClose(), "close", "raised RuntimeError: closed already"),
]


@pytest.mark.parametrize(
    ("task_set", "rule", "finding"),
    BROKEN_TASK_SETS,
    ids=[f"{rule}-{type(t).__name__}" for t, rule, _ in BROKEN_TASK_SETS],
)
def test_violation_is_found_by_its_rule(task_set, rule, finding):
    assert finding in check(task_set, tasks=23).failed()[rule]


def test_every_rule_has_a_task_set_that_violates_it():
    assert {rule.name for rule in RULES} == {rule for _, rule, _ in BROKEN_TASK_SETS}


def test_corridor_passes_every_rule():
    report = check(CorridorTasks(), factory=CorridorTasks)
    assert report.passed, str(report)
    assert str(report).startswith(f"corridor: 0 of {len(RULES) + 1} rules broken")


def test_order_that_depends_on_the_hash_seed_is_found_in_a_second_process():
    report = check(HashSeedOrder(), tasks=20, factory=HashSeedOrder)
    assert list(report.failed()) == ["processes"]
    found = report.failed()["processes"]
    assert found.startswith("task('")
    assert "in a process with PYTHONHASHSEED=" in found


def test_task_set_that_cannot_be_created_in_a_second_process_is_reported():
    factory = partial(RaisesInOtherProcesses, os.getpid())
    found = check(factory(), tasks=2, factory=factory).failed()["processes"]
    assert "PYTHONHASHSEED=1: KeyError: 'only here'" in found


def test_processes_rule_is_skipped_without_a_factory():
    rules = [result.rule.name for result in check(CorridorTasks(), tasks=2).results]
    assert "processes" not in rules
    assert len(rules) == len(RULES)


def test_report_shows_the_finding_below_its_rule():
    lines = str(check(RaisesOnSecondClose(), tasks=5)).splitlines()
    broken = next(n for n, line in enumerate(lines) if "BROKEN" in line)
    assert "close" in lines[broken]
    assert "-> raised RuntimeError: closed already" in lines[broken + 1]


def test_corridor_passes_every_rule_over_http():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    with running(app) as url, BlockingTaskSet(url) as remote:
        report = check(remote, tasks=2)
    assert report.passed, str(report)


def test_corridor_payloads_survive_a_json_round_trip():
    payload = CorridorTasks().task("train", 0).payload
    assert json.loads(json.dumps(dict(payload))) == payload
