"""Small sites of our own for web navigation, with generated tasks: a shop with its administration,
a forum, a code host, a map and a wiki. Seeded, served on loopback, without a network.

    with running_sites(seed=0) as sites:
        sites["shopping"], generated_tasks(seed=0)[0].config
"""

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS, SITES, Account, placeholder
from agentrl_envs.environments.web_sites.selection import selected
from agentrl_envs.environments.web_sites.serving import running_sites
from agentrl_envs.environments.web_sites.tasks.form import Answer, Click, Fill, Goto, SiteTask
from agentrl_envs.environments.web_sites.tasks.generate import (
    generated_tasks,
    task,
    tasks_of_contents,
)
from agentrl_envs.environments.web_sites.vocabulary import site_words

__all__ = [
    "ACCOUNTS",
    "SITES",
    "Account",
    "Answer",
    "Click",
    "Fill",
    "Goto",
    "SiteTask",
    "generated_tasks",
    "placeholder",
    "running_sites",
    "selected",
    "site_words",
    "task",
    "tasks_of_contents",
]
