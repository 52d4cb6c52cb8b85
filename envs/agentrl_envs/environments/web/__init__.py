"""Web navigation: WebArena's observation, actions, tasks and evaluators (arXiv 2307.13854).

`tasks` deals WebArena's JSON tasks (`task_config`) on `sites`; an `environment` plays
one in a context of the shared browser (`agentrl_envs.browser`), in one of two text forms
(`text_agentgym`, `text_terse`), and grades it with `evaluators`.
"""

from typing import TYPE_CHECKING

from agentrl_envs.environments.deferred import deferred
from agentrl_envs.environments.web.options import WebOptions

if TYPE_CHECKING:
    from agentrl_envs.environments.web.environment import WebEnvironment
    from agentrl_envs.environments.web.tasks import WebTasks

__all__ = ["WebEnvironment", "WebOptions", "WebTasks"]

__getattr__ = deferred(__name__, {"WebEnvironment": "environment", "WebTasks": "tasks"})
