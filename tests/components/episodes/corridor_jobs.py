"""Episodes of the corridor to play, and rules of greedy play."""

from dataclasses import replace

from corridor_rules import RULES

from agentrl_components.rollout.episode import Job
from agentrl_envs.environments.corridor import CorridorTasks

TASKS = CorridorTasks()
GREEDY = replace(RULES, max_turns=4, context=64, temperature=0.0, admissible=True)


def jobs(count: int) -> list[Job]:
    """An episode of each of the first `count` tasks, in a group of its own."""
    return [
        Job(
            environment="corridor",
            instructions="walk",
            task=TASKS.task("train", index),
            group=index,
            sample=0,
            iteration=0,
        )
        for index in range(count)
    ]
