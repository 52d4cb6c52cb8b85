"""Each rule is shown to be able to fail: a world that lies in one respect, caught by that rule."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.conformance.check import RULES, check
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
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


def says_nothing_of_success(step: Step, action: str) -> Step:
    return replace(step, success=None)


LIARS = [
    (RandomIds(), "ids", "expected corridor-<16 hex digits>"),
    (SplitByIndex(), "split", "but its hash is in"),
    (ForgetfulTasks(), "same-task", "then corridor-"),
    (RepeatingTasks(), "distinct", "held-out tasks 0 and 1 are both"),
    (TuplePayloads(), "payload", "not the same after a journey"),
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
    report = check(CorridorTasks())
    assert report.passed, str(report)
    assert str(report).startswith(f"corridor: 0 of {len(RULES)} rules broken")


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
