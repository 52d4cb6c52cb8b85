"""What a run does when processes that hold the model die again and again."""

import pytest

from agentrl_components.errors import Stopped, WorkersLostError
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_envs.errors import WorldError
from agentrl_pipelines.local.run import _run_until_done


class DyingContext:
    """A run whose processes die when it is opened, after so many iterations."""

    def __init__(self, iterations, journal=None):
        self.history = [None] * iterations
        self.journal = journal

    def check_stop(self):
        if self.journal is not None:
            raise Stopped("terminated")

    def __enter__(self):
        raise WorkersLostError("a trainer died")

    def __exit__(self, *error):
        raise AssertionError("it was never opened")


class StoppedOpening(DyingContext):
    """A run that is stopped while it is opened."""

    def __init__(self, journal):
        super().__init__(0, journal)

    def __enter__(self):
        raise Stopped("the terminal was closed")


class DyingStages(DyingContext):
    """A run that was opened, and whose stages end with `error`."""

    def __init__(self, journal, error):
        super().__init__(0, journal)
        self.error = error

    def check_stop(self):
        pass

    def __enter__(self):
        self.journal.write_state("running", "the environments are ready")
        return self

    def __exit__(self, *error):
        pass

    def stage(self, name):
        raise self.error


def run_until_given_up(tmp_path, *iterations):
    """Open the run once for each number of iterations that it has then. Returns its view."""
    view = SilentProgressView()
    contexts = (DyingContext(number) for number in iterations)
    with pytest.raises(WorkersLostError) as given_up:
        _run_until_done(lambda: next(contexts), view, tmp_path)
    assert list(contexts) == []
    return view, str(given_up.value)


def test_a_run_gives_up_when_its_processes_die_three_times_at_the_same_place(tmp_path):
    view, error = run_until_given_up(tmp_path, 4, 4, 4)
    assert view.notes == ["a trainer died; the run resumes from its last checkpoint"] * 2
    assert error == (
        "a trainer died; no iteration after 4 was finished between 3 such losses; run the same "
        "command again: the run goes on from its last checkpoint; if processes die often, lower "
        "update.checkpointEvery"
    )


def test_iterations_that_are_done_again_do_not_begin_the_count_anew(tmp_path):
    """After a checkpoint at 10. Regression: the error said that no iteration was finished."""
    _, error = run_until_given_up(tmp_path, 18, 16, 14)
    assert error.startswith("a trainer died; no iteration after 18 was finished between 3 such")


def test_a_run_that_is_to_stop_does_not_start_its_processes_again(tmp_path):
    """A signal to the process group ends the processes of Ray as well."""
    journal = Journal(DirectoryStore(tmp_path))
    contexts = iter([DyingContext(4, journal)])
    with pytest.raises(Stopped, match="terminated"):
        _run_until_done(lambda: next(contexts), SilentProgressView(), tmp_path)
    state = read_state(journal.store)
    assert (state.status, state.message) == ("stopped", "terminated")


def test_a_finished_iteration_begins_the_count_anew(tmp_path):
    view, _ = run_until_given_up(tmp_path, 4, 4, 5, 5, 6, 6, 6)
    assert len(view.notes) == 6


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("running", "iteration 4"), ("stopped", "the terminal was closed")),
        (("succeeded", "8 iterations"), ("succeeded", "8 iterations")),
        (None, ("unknown", "")),
    ],
)
def test_a_run_that_is_stopped_while_it_is_opened_does_not_count_as_running(
    tmp_path, before, after
):
    """It waits for room on a Ray cluster, where the process before was killed."""
    store = DirectoryStore(tmp_path)
    if before is not None:
        Journal(store).write_state(*before)
    stopped = StoppedOpening(Journal(store))
    with pytest.raises(Stopped, match="the terminal was closed"):
        _run_until_done(lambda: stopped, SilentProgressView(), tmp_path)
    state = read_state(store)
    assert (state.status, state.message) == after


@pytest.mark.parametrize(
    ("error", "status", "reason", "message"),
    [
        (WorkersLostError("a trainer died"), "failed", "WorkersLostError", "a trainer died; no"),
        (WorldError("rooms: no answer"), "failed", "WorldError", "rooms: no answer"),
        (ZeroDivisionError("by 0"), "failed", "ZeroDivisionError", "ZeroDivisionError: by 0"),
        (KeyboardInterrupt(), "stopped", "", "interrupted"),
    ],
)
def test_the_state_of_a_run_says_what_ended_it(tmp_path, error, status, reason, message):
    store = DirectoryStore(tmp_path)
    with pytest.raises(type(error)):
        _run_until_done(lambda: DyingStages(Journal(store), error), SilentProgressView(), tmp_path)
    state = read_state(store)
    assert (state.status, state.reason) == (status, reason)
    assert state.message.startswith(message)
