"""Everything a stage works with, opened once and kept warm for the whole run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from agentrl_components.errors import Stopped
from agentrl_components.model.load import WEIGHTS
from agentrl_components.rollout.tasks import Drawn, Upcoming
from agentrl_components.run.journal import Journal
from agentrl_components.run.pace import Pace
from agentrl_components.run.progress import View
from agentrl_components.schedule.history import IterationRecord, best_checkpoint, records
from agentrl_components.schedule.staleness import Ahead, ahead
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import checkpoint, keys, tensors
from agentrl_components.storage.checkpoint import Checkpoint
from agentrl_components.storage.store import Store
from agentrl_components.tracking.tracker import Tracker
from agentrl_components.update.learner import Learner
from agentrl_components.workers.group import Crew
from agentrl_components.workers.pool import Hands
from agentrl_components.workers.trainers import PoolTrainers

MODEL_FILES_LIMIT = 64 * 2**20
"""Files of a model folder that are carried along into each checkpoint: configs and tokenizers."""


class RunContext:
    """One run at work. A context manager: closes workers and worlds."""

    def __init__(
        self,
        run: AgentRLRun,
        store: Store,
        tracker: Tracker,
        view: View,
        should_stop: Callable[[], str | None],
        *,
        learns: bool = True,
        hands: Hands | None = None,
    ) -> None:
        """`should_stop` says why the run should end at the next safe point, or None. A process
        that does not learn plays for one that does: what the run remembers is not its own. `hands`
        are as `Crew` takes them."""
        self.run, self.spec = run, run.spec
        self.store, self.tracker, self.view = store, tracker, view
        self.journal = Journal(store)
        self.journal.devices = self.spec.compute.gpus
        self.history: list[IterationRecord] = []
        self.rolled_back: list[int] = []
        self.version = 0
        """Updates that the weights have seen, a warm start's rounds included."""
        self.saved = -1
        """Iterations that the newest checkpoint covers; -1: there is none."""
        self.covered = 0
        """Iterations that every checkpoint covers which the run may soon have to go back to."""
        self.restored = False
        """A checkpoint was found when the run was opened."""
        self.returned = False
        """The next iteration begins from an older checkpoint."""
        self.anew = False
        """What was played ahead for the next iteration is gone: the lag begins again."""
        self.heldout: Sequence[Drawn] | None = None
        """Held-out tasks, once drawn."""
        self.pace = Pace()
        self._should_stop = should_stop
        self._learns = learns
        self._hands = hands
        self._scratch = TemporaryDirectory(prefix="agentrl-")
        self.scratch = Path(self._scratch.name)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.callback(self._scratch.cleanup)
            self.journal.check(self.run)
            crew = Crew(self.spec, self.scratch, self._hands)
            self.crew = opened.enter_context(contextlib.closing(crew))
            self.lead, self.players = self.crew.lead, self.crew.players
            self.players.note = self.view.note
            upcoming = Upcoming(self.crew.draw, self.spec.rollout.tasks)
            self.tasks = opened.enter_context(contextlib.closing(upcoming))
            self.learner = Learner(self.spec, PoolTrainers(self.spec, self.lead, self.crew.pool))
            if self._learns:
                self.restore()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[None]:
        """Show a stage and count the seconds of work in it."""
        self.view.stage(name, total)
        with self.counted(name):
            yield

    @contextlib.contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Count the seconds of work within."""
        began = time.monotonic()
        try:
            yield
        finally:
            wall = self.journal.wall_seconds
            wall[name] = wall.get(name, 0.0) + time.monotonic() - began

    def pause_point(self) -> None:
        """Raise `Stopped` here if the run should end."""
        reason = self._should_stop()
        if reason is not None:
            raise Stopped(reason)

    def ahead(self) -> Ahead:
        """The iterations that may be played now, and with which weights."""
        return ahead(self.spec, self.history, anew=self.returned or self.anew)

    def save(self) -> None:
        """A checkpoint of the run as it stands between two iterations."""
        with self.counted("checkpoint"):
            self._save()

    def _save(self) -> None:
        files: tensors.Files = {
            path.name: path.read_bytes()
            for path in sorted(self.crew.folder.iterdir())
            if path.is_file()
            and path.suffix not in (".safetensors", ".bin")
            # The folder may be a checkpoint of ours, whose manifest is of other files.
            and path.name not in ("model.safetensors.index.json", keys.MANIFEST)
            and path.stat().st_size <= MODEL_FILES_LIMIT
        }
        files[WEIGHTS] = tensors.pack(self.learner.weights(), WEIGHTS)
        files |= self.learner.state()
        checkpoint.save(
            self.store,
            Checkpoint(
                iteration=len(self.history),
                files=files,
                progress={
                    "version": self.version,
                    "rolled_back": self.rolled_back,
                    "returned": self.returned,
                    "history": [vars_of(record) for record in self.history],
                },
            ),
        )
        ends = {
            record.iteration + 1
            for record, after in zip(self.history, self.history[1:], strict=False)
            if record.phase != after.phase
        }
        kept = {0, *ends, self._covered()}
        checkpoint.prune(self.store, self.spec.update.keep_last, kept)

    def _covered(self) -> int:
        """Note that a checkpoint covers the whole history; the answer is the best one."""
        best = best_checkpoint(self.history, self.spec.horizon.window)
        number = best.iteration + 1 if best is not None else 0
        self.saved = len(self.history)
        whole = checkpoint.complete(self.store)[-self.spec.update.keep_last :]
        self.covered = min(self.saved, *whole)
        self.journal.best(number)
        return number

    def restore(self) -> None:
        """Go on from the newest whole checkpoint, where there is one."""
        found = checkpoint.latest(self.store, self.view.note)
        if found is None:
            return
        self.learner.restore(found.files)
        self.version = found.progress["version"]
        self.rolled_back = list(found.progress["rolled_back"])
        self.returned = found.progress["returned"]
        self.history = records(found.progress["history"])
        self._covered()
        self.restored = True
        self.journal.forget_after(len(self.history))
        self.view.note(f"resumed after iteration {len(self.history)} from {self.store.url}")

    def return_to(self, iteration: int) -> None:
        """Take the weights and the optimizer of the checkpoint after `iteration`, and nothing
        else of it: the schedule goes on and random numbers are new."""
        self.learner.restore(checkpoint.load(self.store, iteration + 1).files)
        self.rolled_back.append(self.history[-1].phase)
        self.returned = True


def vars_of(record: IterationRecord) -> dict[str, object]:
    """A record as JSON."""
    return {name: getattr(record, name) for name in record.__slots__}
