"""Task sets that violate the rules about what follows the end of an episode."""

from dataclasses import replace

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.corridor import CorridorTasks
from broken_task_sets.altered import AlteredEnvironment, AlteredTasks, Violation


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


def success_without_score(step: Step, action: str) -> Step:
    ended = step.terminated or step.truncated
    return replace(step, success=True, reward=0.0) if ended else step


def score_without_success(step: Step, action: str) -> Step:
    return replace(step, success=False)


VIOLATIONS: list[Violation] = [
    (RewardsAfterEnd(), "after-end", "after the end earned 1.0"),
    (ContinuesAfterEnd(), "after-end", "reopened the episode"),
    (AlteredTasks(success_without_score), "success", "success is true with a score of 0"),
    (AlteredTasks(score_without_success), "success", "success is false with a score of 1"),
]
