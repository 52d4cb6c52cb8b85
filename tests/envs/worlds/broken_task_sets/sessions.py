"""Task sets that violate the rules about sessions."""

from dataclasses import replace

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorOptions, CorridorTasks
from broken_task_sets.altered import AlteredEnvironment, AlteredTasks, Violation


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


def constant_state(step: Step, action: str) -> Step:
    return replace(step, state="always the same")


def offers_an_invalid_action(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=("left", "right")))


def offers_nothing(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, admissible=()))


def always_wellformed(step: Step, action: str) -> Step:
    return replace(step, wellformed=True)


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


def shows_half_a_pair(step: Step, action: str) -> Step:
    return replace(step, observation=replace(step.observation, text="cat \ud83d"))


def success_is_none(step: Step, action: str) -> Step:
    return replace(step, success=None)


VIOLATIONS: list[Violation] = [
    (AlteredTasks(lambda step, action: replace(step, reward=0.6)), "answers", "reward is 0.6"),
    (AlteredTasks(lambda step, action: replace(step, reward=-0.5)), "answers", "reward is -0.5"),
    (
        AlteredTasks(lambda step, action: replace(step, terminated=True, truncated=True)),
        "answers",
        "truncated is True",
    ),
    (AlteredTasks(shows_half_a_pair), "answers", "observation.text is 'cat \\ud83d'"),
    (AlteredTasks(success_is_none), "answers", "success is None"),
    (KeepsStateAcrossResets(), "replay", "in the same session again"),
    (SharedEnvironment(), "isolation", "among"),
    (AlteredTasks(offers_an_invalid_action), "admissible", "admissible but not well-formed"),
    (AlteredTasks(offers_nothing), "admissible", "nothing is admissible"),
    (RaisesOnInvalidReply(), "invalid-reply", "raised KeyError"),
    (AlteredTasks(always_wellformed), "invalid-reply", "has wellformed True"),
    (StepsOnInvalidReply(), "invalid-reply", "changed what is admissible"),
    (AlteredTasks(constant_state), "state", "always the same offers"),
    (RefusesAfterFiveTurns(), "admissible", "admissible but not well-formed after"),
    (RarelyNondeterministic(), "replay", "reset shows 'fog'"),
    (RaisesOnSecondClose(), "close", "raised RuntimeError: closed already"),
]
