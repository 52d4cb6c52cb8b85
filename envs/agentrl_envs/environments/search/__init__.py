"""Deep search: questions that are answered by searching a corpus, over several turns.

The protocol (`<search>`, `<information>`, `<answer>`) is that of Search-R1 (arXiv 2503.09516) as
AgentGym serves it; the generated corpus, the splits and the terse form are our own.

`tasks` deals questions: of files in the forms in which data sets are published (`datasets`), or of
a generated world of linked facts (`facts`). A session (`environment`) parses each reply, searches
(`retrieval/`) or scores the answer (`scoring`), and renders the result (`text_agentgym`,
`text_terse`).
"""

from typing import TYPE_CHECKING

from agentrl_envs.environments.deferred import deferred
from agentrl_envs.environments.search.options import SearchOptions

if TYPE_CHECKING:
    from agentrl_envs.environments.search.environment import SearchSession
    from agentrl_envs.environments.search.tasks import SearchTasks

__all__ = ["SearchOptions", "SearchSession", "SearchTasks"]

__getattr__ = deferred(__name__, {"SearchSession": "environment", "SearchTasks": "tasks"})
