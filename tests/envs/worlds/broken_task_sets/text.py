"""Task sets that violate the rules about texts."""

from dataclasses import replace

from agentrl_envs.env import Step
from agentrl_envs.environments.corridor import CorridorTasks
from broken_task_sets.altered import AlteredTasks, Violation


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


VIOLATIONS: list[Violation] = [
    (SmallVocabulary(), "vocabulary", "'jams' is not in the vocabulary"),
    (RelabelsNondeterministically(achieves_a_goal), "relabel", "open the door 1', then"),
    (AlteredTasks(achieves_a_number), "relabel", "achieved is (7,)"),
]
