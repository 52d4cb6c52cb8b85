"""BabyAI: a grid world with doors, keys and goals in natural language (Chevalier-Boisvert et al.
2019, arXiv 1810.08272), played as text with macro actions. The worlds are minigrid's."""

from typing import TYPE_CHECKING

from agentrl_envs.environments.babyai.options import AGENTGYM, LEVELS, STARTER, BabyAIOptions
from agentrl_envs.environments.deferred import deferred

if TYPE_CHECKING:
    from agentrl_envs.environments.babyai.environment import BabyAISession
    from agentrl_envs.environments.babyai.tasks import BabyAITasks

__all__ = ["AGENTGYM", "LEVELS", "STARTER", "BabyAIOptions", "BabyAISession", "BabyAITasks"]

__getattr__ = deferred(__name__, {"BabyAISession": "environment", "BabyAITasks": "tasks"})
