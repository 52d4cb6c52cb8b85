"""TextCraft: making things from recipes that are shown, over several turns.

The task, its commands and its wording are those of TextCraft (ADaPT, arXiv 2311.05772) as AgentGym
serves it; the generator, the splits and the terse form are our own. A task looks like this, in the
terse form, with synthetic recipes:

    goal craft rope ; rope using wheel 2 wood ; wheel using 2 sand ; have nothing
    > get 2 sand
    have 2 sand ; can wheel
    > craft wheel
    have wheel

`tasks` deals problems (`problem`) drawn from `minecraft` or `synthetic` recipes; an `environment`
reads each reply (`command`), carries it out (`workshop`) and tells what came of it (`form`). The
same task has the same id in both forms.
"""

from agentrl_envs.environments.textcraft.environment import TextCraft
from agentrl_envs.environments.textcraft.options import TextCraftOptions
from agentrl_envs.environments.textcraft.tasks import TextCraftTasks

__all__ = ["TextCraft", "TextCraftOptions", "TextCraftTasks"]
