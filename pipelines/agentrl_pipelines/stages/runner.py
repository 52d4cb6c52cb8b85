"""One stage of one phase as a process: under Kubeflow Pipelines, by hand, and in tests.

A pod can end at any moment without a word, so nothing is kept for the end: what is done is in the
store as it is done, and a stage that is started again goes on from there. Exit codes do not come
through either; why a stage failed, and whether trying again may help, is in the run's state and in
the pod's termination message.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from pathlib import Path
from typing import NoReturn

from agentrl_components.errors import CollapseError, ModelError, RunError, SpecError
from agentrl_components.run.journal import Journal
from agentrl_envs.errors import TaskError, WorldError
from agentrl_pipelines.stages.stages import STEPS, Step

log = logging.getLogger(__name__)

TERMINATION_LOG = Path("/dev/termination-log")
"""What Kubernetes shows of a container that ended."""
LONGEST = 4000
"""Bytes of it that Kubernetes keeps, about."""
FINAL = (SpecError, ModelError, TaskError, CollapseError)
"""Errors that another try would only repeat."""


def run_step(name: str, step: Step, termination_log: Path = TERMINATION_LOG) -> int:
    """Do stage `name` of a phase. Returns its exit code: 0, 2 where another try would end alike,
    else 1."""
    try:
        STEPS[name](step)
    except FINAL as error:
        return _failed(name, step, error, termination_log, final=True)
    except (RunError, WorldError) as error:
        return _failed(name, step, error, termination_log, final=False)
    except Exception as error:
        log.exception("stage %s of phase %d failed", name, step.phase)
        return _failed(name, step, error, termination_log, final=False)
    finally:
        step.view.close()
        step.artifacts.close()
    return 0


def end_with(name: str, step: Step) -> NoReturn:
    """Do stage `name` and end the process with its exit code."""
    sys.exit(run_step(name, step))


def _failed(name: str, step: Step, error: Exception, termination_log: Path, *, final: bool) -> int:
    reason, message = type(error).__name__, f"{name}: {error}"
    told = {"reason": reason, "message": message[:LONGEST], "final": final}
    log.error("%s: %s", reason, message)
    with contextlib.suppress(OSError):  # there is no such file outside Kubernetes
        if termination_log.exists():
            termination_log.write_text(json.dumps(told), encoding="utf-8")
    with contextlib.suppress(RunError):  # the store may be what failed
        journal = Journal(step.store())
        # Its partner gives up after a stage that failed for good: that one's words are the cause.
        if final or not (journal.standing.status == "failed" and journal.standing.final):
            journal.state("failed", message, reason=reason, final=final)
    return 2 if final else 1
