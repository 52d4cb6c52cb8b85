"""SciWorld: elementary science experiments in a simulated house (ScienceWorld, Wang et al. 2022,
arXiv 2203.07540), played as text. The worlds run in Java, in JVMs that many sessions share."""

from typing import TYPE_CHECKING

from agentrl_envs.environments.deferred import deferred
from agentrl_envs.environments.sciworld.options import SciWorldOptions

if TYPE_CHECKING:
    from agentrl_envs.environments.sciworld.tasks import SciWorldTasks

__all__ = ["SciWorldOptions", "SciWorldTasks"]

__getattr__ = deferred(__name__, {"SciWorldTasks": "tasks"})
