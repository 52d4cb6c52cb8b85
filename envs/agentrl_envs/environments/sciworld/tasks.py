"""The tasks of SciWorld: variations of ScienceWorld's tasks, in the package's own splits."""

from __future__ import annotations

from agentrl_envs.env import Split, Task
from agentrl_envs.environments.sciworld.catalogue import BY_NAME, of_item, variations
from agentrl_envs.environments.sciworld.environment import SciWorldEnvironment
from agentrl_envs.environments.sciworld.jvm_pool import shared_pool
from agentrl_envs.environments.sciworld.options import SciWorldOptions
from agentrl_envs.environments.sciworld.payload import NAME, task_of
from agentrl_envs.environments.sciworld.text_agentgym import AgentGym
from agentrl_envs.environments.sciworld.text_form import TextForm
from agentrl_envs.environments.sciworld.text_terse import Terse
from agentrl_envs.errors import CapacityError, OptionError, SessionError, TaskError


class SciWorldTasks:
    """Deals the tasks of the options in turn, each by its variations: those that the package sets
    apart for training, and for the held-out split those for testing. The development variations
    are in neither, so that they stay free for other comparisons."""

    name = NAME

    def __init__(self, options: SciWorldOptions | None = None) -> None:
        self.options = options or SciWorldOptions()
        strict = self.options.compat == "agentgym"
        self._form: TextForm = (
            AgentGym(strict=strict) if self.options.text == "agentgym" else Terse()
        )
        self._dealt: dict[Split, tuple[tuple[str, int], ...]] = {
            "train": self._in_turn("train"),
            "heldout": tuple(map(of_item, self.options.items)) or self._in_turn("heldout"),
        }

    def instructions(self) -> str:
        """The rules of the game; empty in the terse form."""
        return self._form.instructions()

    def size(self, split: Split) -> int | None:
        return len(self._dealt[split])

    def task(self, split: Split, index: int) -> Task:
        if index < 0:
            raise TaskError(f"index: {index} is negative; count from 0")
        dealt = self._dealt[split]
        return task_of(*dealt[index % len(dealt)], split)

    def start_programs(self) -> None:
        """Start a JVM and load ScienceWorld into it."""
        pool = shared_pool(jvms=self.options.jvms, worlds=self.options.worlds)
        try:
            pool.lease().release()
        except CapacityError:
            return  # it runs, and is busy
        except SessionError as error:
            raise OptionError(str(error)) from error

    def environment(self) -> SciWorldEnvironment:
        return SciWorldEnvironment(self._form, self.options)

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._form.vocabulary()

    def _in_turn(self, split: Split) -> tuple[tuple[str, int], ...]:
        """(task, variation), one of each task after another until all have been dealt, without the
        items that the options hold out."""
        kept_out = set(map(of_item, self.options.items))
        each = [
            [(name, number) for number in variations(BY_NAME[name], split)]
            for name in self.options.tasks
        ]
        rounds = range(max(map(len, each)))
        return tuple(
            numbers[at]
            for at in rounds
            for numbers in each
            if at < len(numbers) and numbers[at] not in kept_out
        )
