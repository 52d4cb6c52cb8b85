"""Run one stage of one phase as a process: in a KFP pod, by hand, or in a test.

A pod can be killed at any moment, so every result is written to the store at once, and a restarted
stage continues from there. Argo does not propagate exit codes; why a stage failed, and whether a
retry may help, is written to the run's state and to the pod's termination message.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import NoReturn

from agentrl_components.errors import CollapseError, ModelError, RunError, SpecError
from agentrl_components.run.journal import Journal
from agentrl_envs.errors import TaskError, WorldError
from agentrl_pipelines.stages.context import StageContext
from agentrl_pipelines.stages.stages import STAGES
from agentrl_pipelines.stages.termination import TERMINATION_LOG, write_termination

log = logging.getLogger(__name__)

PERMANENT = (SpecError, ModelError, TaskError, CollapseError)
"""Errors that a retry would only repeat."""


def run_stage(name: str, stage: StageContext, termination_log: Path = TERMINATION_LOG) -> int:
    """Run stage `name`. Returns the exit code: 0 on success, 2 if a retry would fail in the same
    way, 1 on any other error."""
    try:
        STAGES[name](stage)
    except PERMANENT as error:
        return _report_failure(name, stage, error, termination_log, permanent=True)
    except (RunError, WorldError) as error:
        return _report_failure(name, stage, error, termination_log, permanent=False)
    except Exception as error:
        log.exception("stage %s of phase %d failed", name, stage.phase)
        return _report_failure(name, stage, error, termination_log, permanent=False)
    finally:
        stage.view.close()
        stage.artifacts.close()
    return 0


def run_and_exit(name: str, stage: StageContext) -> NoReturn:
    """Run stage `name` and exit the process with its exit code."""
    sys.exit(run_stage(name, stage))


def _report_failure(
    name: str, stage: StageContext, error: Exception, termination_log: Path, *, permanent: bool
) -> int:
    reason, message = type(error).__name__, f"{name}: {error}"
    log.error("%s: %s", reason, message)
    write_termination(reason, message, termination_log, permanent=permanent)
    here = {"failed_phase": stage.phase, "failed_attempt": stage.attempt}
    with contextlib.suppress(RunError):  # the store may be what failed
        journal = Journal(stage.store())
        # A permanent failure of the partner stage is the cause of this one: do not overwrite it.
        state = journal.current
        failed_here = state.status == "failed" and state.failed_in(stage.phase, stage.attempt)
        if permanent or not (failed_here and state.final):
            journal.write_state("failed", message, reason=reason, final=permanent, **here)
    return 2 if permanent else 1
