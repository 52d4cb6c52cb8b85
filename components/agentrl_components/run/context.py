"""Everything that a stage works with, opened once and kept open for the whole run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

from agentrl_components.errors import AbsentError, Stopped
from agentrl_components.evaluation.best_checkpoint import best_number
from agentrl_components.ray_workers.calls.results import checking
from agentrl_components.rollout.tasks import DrawnTask, TaskPrefetcher, drawn_patiently
from agentrl_components.run import saved_state
from agentrl_components.run.base_model import at_commit, keep_model, recorded_commit
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import ProgressView, TimeLeft
from agentrl_components.run.saved_state import TrainingState
from agentrl_components.run.spool import spool_in
from agentrl_components.run.worker_group import WorkerGroup
from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.record import Decision, IterationRecord
from agentrl_components.schedule.staleness import PlayWindow, play_window
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import checkpoint
from agentrl_components.storage.files import DamagedError
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.storage.store import Store
from agentrl_components.tracking.tracker import Tracker
from agentrl_components.update.learner import Learner
from agentrl_components.warmstart.conversations import Conversation, given_conversations
from agentrl_components.workers.exit_stack_owner import ExitStackOwner
from agentrl_components.workers.pool import PendingWorkers
from agentrl_components.workers.worker import Worker
from agentrl_envs.env import Split


class RunContext(ExitStackOwner):
    """One run, opened for work. A context manager: closes workers and environments."""

    def __init__(
        self,
        run: AgentRLRun,
        store: Store,
        tracker: Tracker,
        view: ProgressView,
        should_stop: Callable[[], str | None],
        *,
        learns: bool = True,
        pending: PendingWorkers | None = None,
    ) -> None:
        """`should_stop` returns the reason why the run should end at the next safe point, or None.
        Such points are also the waits for Ray while the run is opened, which raises `Stopped` then.
        `learns` is false for a process that only plays: another one owns the training state.
        `pending` are worker processes as `WorkerGroup` takes them."""
        self.run, self.spec = run, run.spec
        self.store, self.tracker, self.view = store, tracker, view
        self.journal = Journal(store)
        self.journal.devices = self.spec.compute.devices
        self.training = TrainingState()
        self.newest_checkpoint = -1
        """Number of the newest checkpoint: the iterations it covers. -1: there is none."""
        self.oldest_needed = 0
        """Iterations covered by every checkpoint that the run may still have to resume from."""
        self.resumed = False
        """A checkpoint was found when the run was opened."""
        self.restart_lag = False
        """Episodes played ahead for the next iteration are gone: the lag restarts at 0."""
        self.conversations: Sequence[Conversation] = ()
        """Those that the warm start of a new run imitates, until it has made examples of them."""
        self.heldout: Sequence[DrawnTask] | None = None
        """Held-out tasks, once drawn."""
        self.time_left = TimeLeft()
        self._should_stop = should_stop
        self._learns = learns
        self._pending = pending
        self._scratch = ScratchFolder()
        self.scratch = self._scratch.path

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._scratch)
            self.journal.check(self.run)
            if self._learns and not checkpoint.complete(self.store):
                self.journal.check_new()
                # Before the model is fetched and opened: a file that cannot be used ends the run.
                self.conversations = given_conversations(self.spec)
            note = self.view.note
            spec = at_commit(self.spec, recorded_commit(self.store))
            # Room on a Ray cluster may be waited for for days, and a stop loses nothing here. Later
            # one could skip a checkpoint.
            with checking(self.check_stop):
                workers = WorkerGroup(spec, self.scratch, self._pending, note=note)
            self.workers = opened.enter_context(workers)
            keep_model(self.store, self.spec.model, workers.folder)
            self.collector = workers.collector
            self.collector.note = note
            refills = self.spec.algorithm.refill_rounds
            draw = partial(workers.draw, refills=refills)
            tasks = TaskPrefetcher(draw, self.spec.rollout.tasks, note, refills=refills)
            self.tasks = opened.enter_context(contextlib.closing(tasks))
            self.learner = Learner(self.spec, workers.trainers)
            if self._learns:
                self.resume()
            self._opened = opened.pop_all()
        return self

    @property
    def lead(self) -> Worker:
        """The worker of this process, whose weights the worker processes share."""
        return self.workers.lead

    @property
    def history(self) -> list[IterationRecord]:
        """The records of all iterations so far."""
        return self.training.history

    @contextlib.contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[None]:
        """Show a stage and count its wall-clock seconds."""
        self.view.stage(name, total)
        with self.timed(name):
            yield

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the wall-clock seconds of the block to stage `name`."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add_seconds(name, time.monotonic() - began)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Add wall-clock seconds to stage `name`."""
        wall = self.journal.wall_seconds
        wall[name] = wall.get(name, 0.0) + seconds

    def check_stop(self) -> None:
        """Raise `Stopped` if the run should end here."""
        reason = self._should_stop()
        if reason is not None:
            raise Stopped(reason)

    def draw(self, split: Split, count: int, batch: int = 0) -> Sequence[DrawnTask]:
        """Tasks, as `TaskSource.draw` returns them. A server that is away may come back meanwhile,
        as `drawn_patiently` says."""
        return drawn_patiently(partial(self.workers.draw, split, count, batch), self.view.note)

    def play_window(self) -> PlayWindow:
        """The iterations that may be played now, and the policy that plays each."""
        restart_lag = self.training.after_rollback or self.restart_lag
        return play_window(self.spec, self.history, restart_lag=restart_lag)

    def commit(self, record: IterationRecord, decision: Decision) -> IterationRecord:
        """Make an iteration and its decision durable: roll back if that was decided, write the
        journal, and save a checkpoint if one is due. Returns the record as written; its decision is
        another one than `decision` if the checkpoint to roll back to cannot be read."""
        # Before the journal: what it holds is what was done.
        decision = self._restore_decided(record, decision)
        due = (record.iteration + 1) % self.spec.update.checkpoint_every == 0
        goes_on = decision.action in ("continue", "hold")
        saved = due or not goes_on
        # After a rollback the checkpoint holds the restored weights, not this iteration's.
        checkpointed = saved and decision.action != "rollback"
        record = record.model_copy(update={"decision": decision, "checkpointed": checkpointed})
        self.training.after_rollback = self.restart_lag = False
        if not goes_on:
            self.training.unlearnt.clear()  # they are dropped, so no resume starts them again
        self.history.append(record)
        self.journal.write_iteration(record)
        if decision.checkpoint is not None:
            # An engine with the discarded weights must not take them for the restored ones.
            self.training.version += 1
            self.training.rolled_back.append(record.phase)
            self.training.after_rollback = True
        if saved:
            self.save()
        return record

    def save(self) -> None:
        """Save a checkpoint of the run as it stands between two iterations, if there is none."""
        if self.newest_checkpoint == len(self.history):
            return
        with self.timed("checkpoint"):
            with spool_in(self.scratch) as spool:
                folder = self.workers.folder
                saved_state.save(self.store, folder, self.learner, self.training, spool)
            self._note_checkpoint()
            best = self.note_best()
            saved_state.prune(self.store, self.spec, self.history, best)

    def resume(self) -> None:
        """Continue from the newest intact checkpoint, if there is one."""
        with spool_in(self.scratch) as spool:
            found = saved_state.resume(self.store, self.learner, self.view.note, spool)
        if found is None:
            return
        self.training = found
        if self.spec.warm_start is not None and self.learner.has_reference:
            # The reference policy is the one that the warm start ended with.
            with spool_in(self.scratch) as spool:
                saved_state.restore_reference(self.store, self.learner, 0, spool)
        self._note_checkpoint()
        self.resumed = True
        self.journal.truncate(len(self.history))
        self.note_best()  # after evaluations of weights that are gone were deleted
        self.view.note(f"resumed after iteration {len(self.history)} from {self.store.url}")

    def _restore_decided(self, record: IterationRecord, decision: Decision) -> Decision:
        """If `decision`, the one after `record`, is a rollback, restore the weights and the
        optimizer of its checkpoint, and nothing else: the schedule continues, and random streams
        are new.

        A checkpoint that is damaged or missing is noted and does not count from now on: the
        decision is made anew, and goes back to the next best one, or nowhere if there is none. With
        an error in its place every resumed run would come to it again. Returns the decision that
        was carried out."""
        while (target := decision.checkpoint) is not None:
            try:
                with spool_in(self.scratch) as spool:
                    # All files are verified before the first one is loaded.
                    saved_state.restore(self.store, self.learner, target + 1, spool)
                break
            except (DamagedError, AbsentError) as error:
                self.view.note(f"{error}; the run does not roll back to iteration {target}")
            unusable = self.history[target].model_copy(update={"checkpointed": False})
            self.history[target] = unusable
            self.journal.replace_iteration(unusable)
            history = [*self.history, record]
            decision = decide(self.spec.horizon, history, self.training.rolled_back)
        return decision

    def note_best(self) -> int:
        """Make the best checkpoint part of the journal's state, and return its number."""
        best = best_number(self.store, self.history, self.spec.horizon.window)
        self.journal.set_best(best)
        return best

    def _note_checkpoint(self) -> None:
        """Note that a checkpoint covers the whole history."""
        self.newest_checkpoint = len(self.history)
        usable = checkpoint.complete(self.store, newest=self.newest_checkpoint)
        resumable = usable[-self.spec.update.keep_last :]
        self.oldest_needed = min(self.newest_checkpoint, *resumable)
