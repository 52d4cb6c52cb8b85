"""The workers of a run with their model, environments and tasks. Training and a separate evaluation
both use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentrl_components.dialogue.open import dialogue_of
from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.model.sources import commit_of, fetch_model
from agentrl_components.rollout.collector import Collector
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.samplers import Samplers
from agentrl_components.rollout.tasks import DrawnTask, TaskSource
from agentrl_components.run.base_model import at_commit
from agentrl_components.spec import RunSpec
from agentrl_components.spec.rules.environments.vocabulary import check_words
from agentrl_components.update.trainers import Trainers
from agentrl_components.workers.exit_stack_owner import ExitStackOwner
from agentrl_components.workers.local import device, open_pool
from agentrl_components.workers.loop_thread import LoopThread
from agentrl_components.workers.memory import set_up_memory
from agentrl_components.workers.pool import PendingWorkers, WorkerPool
from agentrl_components.workers.samplers import PoolSamplers
from agentrl_components.workers.trainers import PoolTrainers
from agentrl_components.workers.worker import Setup, Worker
from agentrl_envs.env import Split
from agentrl_envs.world import World

if TYPE_CHECKING:
    from agentrl_components.ray_workers.actors import Actors


class WorkerGroup(ExitStackOwner):
    """Keeps workers, model and environments open. Actors may stay, as `Actors` says.

    With `compute.ray` trainers and samplers are Ray actors; otherwise they are worker processes of
    this machine, or this process."""

    trainers: Trainers
    samplers: Samplers
    dialogue: Dialogue

    def __init__(
        self,
        spec: RunSpec,
        scratch: Path,
        pending: PendingWorkers | None = None,
        *,
        trains: bool = True,
        note: Callable[[str], None],
    ) -> None:
        """`scratch` is a folder for a model that is created or downloaded. `pending` are worker
        processes that were started early; without them they are started here if needed. `trains` is
        false for an evaluation, which needs no trainers. `note` gets what people should know about
        the workers. Raises what opening an environment or a model raises, and then closes
        everything but `pending`."""
        set_up_memory()
        self.loop = LoopThread()
        with ExitStack() as opened:
            opened.callback(self.loop.close)
            self.worlds: dict[str, World] = self.loop.run(open_worlds(spec.environments))
            for world in self.worlds.values():
                opened.callback(partial(self._close_world, world))
            self.source = TaskSource(spec.environments, self.worlds)
            opened.callback(lambda: self.loop.run(self.source.close()))
            vocabularies = {name: world.vocabulary() for name, world in self.worlds.items()}
            check_words(spec, vocabularies)
            words, folder = all_words(vocabularies.values()), scratch / "model"
            self.folder = fetch_model(spec.model, words, spec.seed, folder, spec.storage)
            # For actors on other machines, which download an `hf://` model themselves.
            spec = at_commit(spec, commit_of(spec.model, self.folder))
            self.actors: Actors | None = None
            if spec.compute.ray is None:
                self._open_processes(spec, pending, opened)
            else:
                self._open_actors(spec, words, opened, trains=trains, note=note)
            self._opened = opened.pop_all()
        self.instructions = {name: w.instructions() for name, w in self.worlds.items()}
        self.collector = Collector(spec, self.samplers, self.instructions)

    @property
    def lead(self) -> Worker:
        """The worker of this process, whose weights the worker processes share. There is none on
        Ray."""
        assert self._lead is not None
        return self._lead

    def draw(
        self, split: Split, count: int, batch: int = 0, refills: int = 0
    ) -> Sequence[DrawnTask]:
        """Tasks, as `TaskSource.draw` returns them."""
        return self.loop.run(self.source.draw(split, count, batch, refills))

    @property
    def down(self) -> dict[str, str]:
        """Environments that do not answer, by name, with their last error."""
        return self.source.down

    def dealt_no_tasks(self) -> list[tuple[str, str]]:
        """As `TaskSource.dealt_no_tasks`."""
        return self.source.dealt_no_tasks()

    def probe(self) -> list[str]:
        """As `TaskSource.probe`."""
        return self.loop.run(self.source.probe()) if self.down else []

    def _open_processes(
        self, spec: RunSpec, pending: PendingWorkers | None, opened: ExitStack
    ) -> None:
        """Open worker processes, or a worker in this process."""
        setup = Setup(spec=spec, folder=self.folder, device=device(spec.compute))
        self._lead: Worker | None = Worker(setup)
        self.pool: WorkerPool = open_pool(self._lead, setup, pending)
        opened.callback(self.pool.close)
        self.trainers = PoolTrainers(spec, self._lead, self.pool)
        self.samplers = PoolSamplers(self.pool)
        self.dialogue = self._lead.dialogue

    def _open_actors(
        self,
        spec: RunSpec,
        words: Sequence[str],
        opened: ExitStack,
        *,
        trains: bool,
        note: Callable[[str], None],
    ) -> None:
        """Open Ray actors."""
        # Imported here: a run without Ray needs neither Ray nor FSDP, whose import takes a second.
        from agentrl_components.ray_workers.actors import Actors
        from agentrl_components.ray_workers.model_folder import ModelFolder

        self._lead = None
        if spec.compute.ray == "embedded":  # all actors are on this machine: there are no copies
            model = ModelFolder(path=self.folder, vocabulary=words)
        else:
            model = ModelFolder.of(spec.model, self.folder, words)
        self.actors = opened.enter_context(Actors(spec, model, trains=trains, note=note))
        if self.actors.trainers is not None:
            self.trainers = self.actors.trainers
        self.samplers = self.actors.samplers
        self.dialogue = dialogue_of(spec, self.folder)

    def _close_world(self, world: World) -> None:
        self.loop.run(world.close())


def all_words(vocabularies: Iterable[Sequence[str] | None]) -> list[str]:
    """The words of all environments that list theirs, sorted."""
    return sorted({word for words in vocabularies for word in words or ()})
