"""TextCraft: crafting an item from given recipes over several turns.

The task, its commands and its wording are those of TextCraft (ADaPT, arXiv 2311.05772) as AgentGym
serves it; the generator, the splits and the terse form are our own. A task looks like this, in the
terse form, with synthetic recipes:

    goal craft rope ; rope using wheel 2 wood ; wheel using 2 sand ; have nothing
    > get 2 sand
    have 2 sand ; can wheel
    > craft wheel
    have wheel

`tasks` deals problems (`payload`) drawn from `recipes_minecraft` or `recipes_synthetic`; an
`environment` parses each reply (`reply_parser`), executes it (`crafting`) and renders the result
(`text_form`). A task has the same id in both text forms.
"""

from typing import TYPE_CHECKING

from agentrl_envs.environments.deferred import deferred
from agentrl_envs.environments.textcraft.options import TextCraftOptions

if TYPE_CHECKING:
    from agentrl_envs.environments.textcraft.environment import TextCraft
    from agentrl_envs.environments.textcraft.tasks import TextCraftTasks

__all__ = ["TextCraft", "TextCraftOptions", "TextCraftTasks"]

__getattr__ = deferred(__name__, {"TextCraft": "environment", "TextCraftTasks": "tasks"})
