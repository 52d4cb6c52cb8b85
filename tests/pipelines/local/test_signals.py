"""The second Ctrl-C stops a run at once, wherever an environment hangs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from corridor_run import HEADER

from agentrl_components.run.progress import SilentProgressView
from agentrl_pipelines.local.signals import EXIT_CODE, handle_signals

nightly = pytest.mark.nightly
ENDED_S = 180.0
"""Time limit for processes to end, in seconds: on a busy machine, imports alone take a minute."""
AGENTRL = str(Path(sys.executable).with_name("agentrl"))

STUCK = """\
import os, time
from pathlib import Path

from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks


class StuckTasks(CorridorTasks):
    def __init__(self, after: int = 0, swallows: bool = False, waits: bool = False) -> None:
        super().__init__()
        self.after, self.swallows, self.waits = after, swallows, waits

    def environment(self):
        return Stuck(self)


class Stuck(CorridorEnvironment):
    def __init__(self, tasks):
        super().__init__()
        self.tasks, self.steps = tasks, 0

    def step(self, action):
        self.steps += 1
        while self.steps > self.tasks.after:
            Path(os.environ["STUCK"]).touch()
            try:
                time.sleep(600)
            except BaseException:
                if not self.tasks.swallows:
                    raise
        return super().step(action)
"""

MANIFEST = """\
  horizon: {phases: [{maxTurns: 4, iterations: 2}]}
  rollout: {tasks: 2, groupSize: 2, actions: admissible, maxTokensPerTurn: 4}
  evaluation: {tasks: 4}
"""


class StuckRun:
    """A command in a session of its own, as in a terminal: signals go to all of its processes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        (folder / "stuck.py").write_text(STUCK)
        self.file, self._stuck = folder / "run.yaml", folder / "stuck"
        environment = "name: corridor, builtin: 'stuck:StuckTasks', replicas: 0"
        header = HEADER.replace("name: corridor, builtin: corridor", environment)
        self.file.write_text(header + MANIFEST)
        path = os.pathsep.join([str(folder), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [AGENTRL, arguments[0], str(self.file), *arguments[1:]],
            env=os.environ | {"PYTHONPATH": path, "STUCK": str(self._stuck)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = ""

    def wait_until_stuck(self) -> list[psutil.Process]:
        """Wait until the environment hangs. Returns the processes of the command."""
        main = psutil.Process(self.process.pid)
        while not self._stuck.exists():
            assert self.process.poll() is None, self.process.communicate()[0]
            try:
                main.wait(0.02)
            except psutil.TimeoutExpired:
                continue
        return main.children(recursive=True)

    def interrupt(self, *, until: str = "") -> None:
        """Send SIGINT to all processes, and wait for a line with `until`."""
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.stdout is not None
        while until and until not in self.output:
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line

    def end(self) -> int:
        """Wait for the end. Returns the exit code."""
        try:
            self.output += self.process.communicate(timeout=ENDED_S)[0]
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.returncode


@pytest.mark.parametrize(
    ("workers", "options", "env_workers"),
    [
        (1, "{after: 1}", 0),
        (2, "{after: 1}", 0),
        (1, "{after: 1}", 1),  # hangs in a process of the environment
        pytest.param(1, "{after: 1, swallows: true}", 0, marks=nightly),
        pytest.param(1, "{after: 1, waits: true}", 0, marks=nightly),  # hangs in a thread
        pytest.param(2, "{}", 0, marks=nightly),  # hangs before there are workers
    ],
)
def test_the_second_ctrl_c_stops_a_run_whose_environment_hangs(
    tmp_path, workers, options, env_workers
):
    run = StuckRun(
        tmp_path,
        *("run", "--root", str(tmp_path / "root"), "--set", f"compute.workers={workers}"),
        *("--set", f"environments[0].options={options}"),
        *("--set", f"environments[0].workers={env_workers}"),
    )
    processes = run.wait_until_stuck()
    run.interrupt(until="press Ctrl-C again to stop at once")
    run.interrupt()
    assert run.end() == 130, run.output
    assert "interrupted. Run the same command again to resume" in run.output
    assert "Traceback" not in run.output
    assert psutil.wait_procs(processes, timeout=ENDED_S)[1] == []


def test_further_signals_do_not_disturb_the_end(tmp_path):
    swallows = "environments[0].options={after: 1, swallows: true}"
    run = StuckRun(tmp_path, "run", "--root", str(tmp_path / "root"), "--set", swallows)
    run.wait_until_stuck()
    run.interrupt(until="press Ctrl-C again to stop at once")
    for _ in range(3):
        run.interrupt()
    assert run.end() == 130, run.output
    assert "interrupted. Run the same command again to resume" in run.output
    assert "Traceback" not in run.output


@pytest.mark.parametrize("workers", [pytest.param(1, marks=nightly), 2])
def test_ctrl_c_stops_an_evaluation_whose_environment_hangs(tmp_path, workers):
    options = ("environments[0].options={after: 1}", f"compute.workers={workers}")
    sets = (part for option in options for part in ("--set", option))
    run = StuckRun(tmp_path, "eval", "--out", str(tmp_path / "out"), *sets)
    processes = run.wait_until_stuck()
    run.interrupt()
    assert run.end() == 130, run.output
    assert "interrupted." in run.output
    assert "again" not in run.output  # nothing is kept that could be resumed
    assert "Traceback" not in run.output
    assert psutil.wait_procs(processes, timeout=ENDED_S)[1] == []


class SlowView(SilentProgressView):
    """Shows a note once it may: as on a terminal that is stopped by Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.may_show, self.shown = threading.Event(), threading.Event()

    def note(self, text: str) -> None:
        assert self.may_show.wait(ENDED_S)
        super().note(text)
        self.shown.set()


def test_the_run_goes_on_to_its_safe_point_while_the_note_of_a_signal_cannot_be_shown():
    view = SlowView()
    with handle_signals(None, view) as should_stop:
        assert should_stop() is None
        signal.raise_signal(signal.SIGTERM)  # would not return if the handler showed the note
        assert should_stop() == "terminated"
        view.may_show.set()
        assert view.shown.wait(ENDED_S)
    assert view.notes == ["stopping after the current step; press Ctrl-C again to stop at once"]


EXIT_AT_ONCE = """\
import os, signal, sys
from agentrl_pipelines.local.signals import interrupt_at_once

reading, writing = os.pipe()
os.close(reading)
for stream in (1, 2):
    os.dup2(writing, stream)
sys.stdout = open(1, "w", closefd=False)
print("is kept by the buffer")
with interrupt_at_once("interrupted."):
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
"""


def test_a_process_whose_output_nobody_reads_is_stopped_at_once_all_the_same():
    done = subprocess.run([sys.executable, "-c", EXIT_AT_ONCE], check=False, timeout=ENDED_S)
    assert done.returncode == EXIT_CODE


def test_work_of_earlier_starts_counts_towards_the_deadline():
    with handle_signals(3600, SilentProgressView(), worked_s=3601.0) as should_stop:
        reason = "spec.activeDeadlineSeconds (3600) has passed; to go on, raise it"
        assert should_stop() == reason
    with handle_signals(3600, SilentProgressView(), worked_s=1.0) as should_stop:
        assert should_stop() is None


def test_a_closed_terminal_stops_a_run_however_many_signals_it_sends():
    with handle_signals(None, SilentProgressView()) as should_stop:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert should_stop() == "the terminal was closed"


def test_the_two_signals_of_a_timeout_command_stop_a_run_at_its_safe_point():
    """`timeout` sends SIGTERM to its child and then to the process group."""
    times, view = iter([0.0, 10.0, 10.5]), SilentProgressView()
    with handle_signals(None, view, 0.0, times.__next__) as should_stop:
        signal.raise_signal(signal.SIGTERM)  # at 10 s
        signal.raise_signal(signal.SIGTERM)  # at 10.5 s
        assert should_stop() == "terminated"
    assert len(view.notes) == 1


def terminate_twice(view, times):
    with handle_signals(None, view, 0.0, times.__next__):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_a_sigterm_a_second_after_the_first_stops_a_run_at_once():
    view = SilentProgressView()
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        terminate_twice(view, iter([0.0, 10.0, 11.0]))
    assert len(view.notes) == 1


def test_a_run_below_nohup_outlives_the_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals(None, SilentProgressView()) as should_stop:
            signal.raise_signal(signal.SIGHUP)
            assert should_stop() is None
    finally:
        signal.signal(signal.SIGHUP, before)
