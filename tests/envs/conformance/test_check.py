"""Each rule is shown to be able to fail: a world that lies in one respect, caught by that rule."""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from other_process import HashSeedOrder, RaisesElsewhere

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.conformance.check import RULES, check
from agentrl_envs.env import Observation, Split, Step, Task, content_id, split_of
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorOptions, CorridorTasks
from agentrl_envs.errors import TaskError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.executors import ThreadExecutor
from agentrl_envs.server.run import running


class Bent:
    """A corridor session in which one answer is bent."""

    def __init__(
        self,
        reset: Callable[[Observation, Task], Observation] = lambda seen, task: seen,
        step: Callable[[Step, str], Step] = lambda step, action: step,
    ) -> None:
        self.environment = CorridorEnvironment()
        self.bend_reset, self.bend_step = reset, step

    def reset(self, task: Task) -> Observation:
        return self.bend_reset(self.environment.reset(task), task)

    def step(self, action: str) -> Step:
        return self.bend_step(self.environment.step(action), action)

    def close(self) -> None:
        self.environment.close()


class BentTasks(CorridorTasks):
    """Corridor tasks whose sessions are bent by `step`."""

    def __init__(self, step: Callable[[Step, str], Step]) -> None:
        super().__init__()
        self.bend = step

    def environment(self):
        return Bent(step=self.bend)


class RandomIds(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, id=f"corridor-{index}")


class SplitByIndex(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task("train" if index % 2 else "heldout", index)


class ForgetfulTasks(CorridorTasks):
    dealt = 0

    def task(self, split: Split, index: int) -> Task:
        self.dealt += 1
        return super().task(split, index + self.dealt)


class RepeatingTasks(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        return super().task(split, index // 2)


class TuplePayloads(CorridorTasks):
    def task(self, split: Split, index: int) -> Task:
        task = super().task(split, index)
        return replace(task, payload={**task.payload, "way": ("a", "b")})

    def environment(self):
        class Careless(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                known = {key: value for key, value in task.payload.items() if key != "way"}
                return super().reset(replace(task, payload=known))

        return Careless()


class WelcomesAll(CorridorTasks):
    def environment(self):
        class Welcoming(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                try:
                    return super().reset(task)
                except TaskError:
                    return Observation(text="come in")

        return Welcoming()


class OneForAll(CorridorTasks):
    """Every session is the same session."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = CorridorEnvironment()

    def environment(self):
        return self.shared


class Remembers(CorridorTasks):
    """A used session counts on where the last episode ended."""

    def environment(self):
        state = {"episodes": 0}

        def reset(seen: Observation, task: Task) -> Observation:
            state["episodes"] += 1
            return replace(seen, text=f"{seen.text} {min(state['episodes'], 8)}")

        return Bent(reset=reset)


class ClosesOnce(CorridorTasks):
    def environment(self):
        class Once(CorridorEnvironment):
            closed = False

            def close(self) -> None:
                if self.closed:
                    raise RuntimeError("closed already")
                self.closed = True

        return Once()


class RaisesAtNonsense(CorridorTasks):
    def environment(self):
        class Touchy(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if "xyzzy" in action:
                    raise KeyError(action)
                return super().step(action)

        return Touchy()


class MovesOnNonsense(CorridorTasks):
    """Says that nothing happened, and takes a step all the same."""

    def environment(self):
        class Sly(CorridorEnvironment):
            def step(self, action: str) -> Step:
                answer = super().step(action)
                if not answer.wellformed and answer.observation.admissible:
                    super().step(answer.observation.admissible[0])
                return answer

        return Sly()


class SmallVocabulary(CorridorTasks):
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(word for word in super().vocabulary() if word != "jams")


class RewritesAtWill(BentTasks):
    """Rewrites every opening in another way than before."""

    rewritten = 0

    def relabel(self, observation: str, goal: str) -> str:
        self.rewritten += 1
        return f"{observation} {goal} {self.rewritten}"


def achieves_the_door(step: Step, action: str) -> Step:
    return replace(step, achieved=("open the door",))


def achieves_a_number(step: Step, action: str) -> Step:
    return replace(step, achieved=(7,))


def without_state(step: Step, action: str) -> Step:
    return replace(step, state="always the same")


def offers_the_wall(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=("left", "right")))


def offers_nothing(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=()))


def everything_is_wellformed(step: Step, action: str) -> Step:
    return replace(step, wellformed=True)


class NoncePayloads(CorridorTasks):
    """The same corridors in both splits, under ids that a nonce makes different."""

    def task(self, split: Split, index: int) -> Task:
        task = super().task("train", index)
        for nonce in itertools.count():
            payload = {**task.payload, "nonce": nonce}
            task_id = content_id("corridor", payload)
            if split_of(task_id) == split:
                return replace(task, id=task_id, payload=payload)
        raise AssertionError

    def environment(self):
        class Unsalted(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                if task.id != content_id("corridor", dict(task.payload)):
                    raise TaskError("another task's id")
                payload = {k: v for k, v in task.payload.items() if k != "nonce"}
                known = replace(task, id=content_id("corridor", payload), payload=payload)
                return super().reset(known)

        return Unsalted()


class BelievesEveryId(CorridorTasks):
    def environment(self):
        class Believing(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                return super().reset(replace(task, id=content_id("corridor", dict(task.payload))))

        return Believing()


class TwiceTheSize(CorridorTasks):
    def size(self, split: Split) -> int:
        return 2 * super().size(split)


class OneTooMany(CorridorTasks):
    def size(self, split: Split) -> int:
        return super().size(split) + 1


class PaysAgain(CorridorTasks):
    """The last action is worth something after the end, too."""

    def environment(self):
        over: list[bool] = [False]

        def step(step: Step, action: str) -> Step:
            paid = replace(step, reward=1.0) if over[0] else step
            over[0] = step.terminated or step.truncated
            return paid

        return Bent(step=step)


class Reopens(CorridorTasks):
    def environment(self):
        over: list[bool] = [False]

        def step(step: Step, action: str) -> Step:
            reopened = replace(step, terminated=False, truncated=False) if over[0] else step
            over[0] = over[0] or step.terminated or step.truncated
            return reopened

        def reset(seen: Observation, task: Task) -> Observation:
            over[0] = False
            return seen

        return Bent(reset=reset, step=step)


class RefusesLate(CorridorTasks):
    """From the sixth turn on no action is taken any more."""

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

        bent = Bent(reset=reset, step=step)
        bent.environment = CorridorEnvironment(turns=12)
        return bent


class SeldomOtherwise(CorridorTasks):
    """One reset in 150 shows something else."""

    resets = 0

    def environment(self):
        def reset(seen: Observation, task: Task) -> Observation:
            self.resets += 1
            return replace(seen, text="fog") if self.resets % 150 == 0 else seen

        return Bent(reset=reset)


def succeeds_for_nothing(step: Step, action: str) -> Step:
    ended = step.terminated or step.truncated
    return replace(step, success=True, reward=0.0) if ended else step


def scores_without_success(step: Step, action: str) -> Step:
    return replace(step, success=False)


def says_nothing_of_success(step: Step, action: str) -> Step:
    return replace(step, success=None)


LIARS = [
    (RandomIds(), "ids", "expected corridor-<16 hex digits>"),
    (SplitByIndex(), "split", "but its hash is in"),
    (ForgetfulTasks(), "same-task", "then corridor-"),
    (RepeatingTasks(), "distinct", "held-out tasks 0 and 1 are both"),
    (TuplePayloads(), "payload", "not the same after a round trip"),
    (WelcomesAll(), "foreign-task", "shows 'come in'"),
    (BentTasks(lambda step, action: replace(step, reward=0.6)), "answers", "reward is 0.6"),
    (BentTasks(lambda step, action: replace(step, reward=-0.5)), "answers", "reward is -0.5"),
    (
        BentTasks(lambda step, action: replace(step, terminated=True, truncated=True)),
        "answers",
        "truncated is True",
    ),
    (BentTasks(says_nothing_of_success), "answers", "success is None"),
    (Remembers(), "replay", "in the same session again"),
    (OneForAll(), "isolation", "among"),
    (BentTasks(offers_the_wall), "admissible", "admissible but not well-formed"),
    (BentTasks(offers_nothing), "admissible", "nothing is admissible"),
    (RaisesAtNonsense(), "invalid-reply", "raised KeyError"),
    (BentTasks(everything_is_wellformed), "invalid-reply", "has wellformed True"),
    (MovesOnNonsense(), "invalid-reply", "changed what is admissible"),
    (BentTasks(without_state), "state", "always the same offers"),
    (SmallVocabulary(), "vocabulary", "'jams' is not in the vocabulary"),
    (RewritesAtWill(achieves_the_door), "relabel", "open the door 1', then"),
    (BentTasks(achieves_a_number), "relabel", "achieved is (7,)"),
    (NoncePayloads(), "content", "are played alike"),
    (BelievesEveryId(), "forged-task", "under the id"),
    (TwiceTheSize(), "size", "repeat those from 0 on, though there are 194"),
    (OneTooMany(), "size", "though there are"),
    (PaysAgain(), "after-end", "after the end earned 1.0"),
    (Reopens(), "after-end", "reopened the episode"),
    (RefusesLate(), "admissible", "admissible but not well-formed after"),
    (SeldomOtherwise(), "replay", "reset shows 'fog'"),
    (BentTasks(succeeds_for_nothing), "success", "success is true with a score of 0"),
    (BentTasks(scores_without_success), "success", "success is false with a score of 1"),
    (ClosesOnce(), "close", "raised RuntimeError: closed already"),
]


@pytest.mark.parametrize(
    ("liar", "rule", "finding"), LIARS, ids=[f"{rule}-{type(t).__name__}" for t, rule, _ in LIARS]
)
def test_a_lie_is_found_by_its_rule(liar, rule, finding):
    assert finding in check(liar, tasks=23).failed()[rule]


def test_every_rule_has_a_liar_that_breaks_it():
    assert {rule.name for rule in RULES} == {rule for _, rule, _ in LIARS}


def test_the_reference_keeps_every_rule():
    report = check(CorridorTasks(), factory=CorridorTasks)
    assert report.passed, str(report)
    assert str(report).startswith(f"corridor: 0 of {len(RULES) + 1} rules broken")


def test_an_order_that_depends_on_the_hash_seed_is_found_by_a_second_process():
    report = check(HashSeedOrder(), tasks=20, factory=HashSeedOrder)
    assert list(report.failed()) == ["processes"]
    found = report.failed()["processes"]
    assert found.startswith("task('")
    assert "in a process with PYTHONHASHSEED=" in found


def test_a_task_set_that_cannot_be_created_in_a_second_process_is_a_finding():
    factory = partial(RaisesElsewhere, os.getpid())
    found = check(factory(), tasks=2, factory=factory).failed()["processes"]
    assert "PYTHONHASHSEED=1: KeyError: 'only here'" in found


def test_without_a_factory_the_rule_of_processes_is_left_out():
    rules = [result.rule.name for result in check(CorridorTasks(), tasks=2).results]
    assert "processes" not in rules
    assert len(rules) == len(RULES)


def test_a_report_shows_the_finding_under_its_rule():
    lines = str(check(ClosesOnce(), tasks=5)).splitlines()
    broken = next(n for n, line in enumerate(lines) if "BROKEN" in line)
    assert "close" in lines[broken]
    assert "-> raised RuntimeError: closed already" in lines[broken + 1]


def test_the_reference_keeps_every_rule_over_http():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    with running(app) as url, BlockingTaskSet(url) as remote:
        report = check(remote, tasks=2)
    assert report.passed, str(report)


def test_the_reference_s_payloads_are_json():
    payload = CorridorTasks().task("train", 0).payload
    assert json.loads(json.dumps(dict(payload))) == payload
