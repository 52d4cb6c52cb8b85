"""MiniWoB++: small web pages with one instruction each (Liu et al., arXiv 1802.08802).

The pages are those of the package `miniwob`, driven by `agentrl_envs.browser` instead of Selenium
and read as WebArena's accessibility tree. The page's own script decides the reward.
"""

from typing import TYPE_CHECKING

from agentrl_envs.environments.deferred import deferred
from agentrl_envs.environments.miniwob.options import MiniWobOptions

if TYPE_CHECKING:
    from agentrl_envs.environments.miniwob.environment import MiniWobEnvironment
    from agentrl_envs.environments.miniwob.tasks import MiniWobTasks

__all__ = ["MiniWobEnvironment", "MiniWobOptions", "MiniWobTasks"]

__getattr__ = deferred(__name__, {"MiniWobEnvironment": "environment", "MiniWobTasks": "tasks"})
