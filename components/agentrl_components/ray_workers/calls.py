"""Results of calls to Ray actors, with the errors of this project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrl_components.errors import WorkersLostError

AFTER_ERROR_S = 10.0
"""After an error, how long to wait for the other results. An actor that died makes the others fail
with errors of their own, and its death is the cause to report."""

DIED = "a process of the run died on Ray; the run resumes from its last checkpoint"


def results(references: Sequence[Any]) -> list[Any]:
    """The results of calls to several actors, in order.

    Raises:
        WorkersLostError: an actor has died.
        Exception: what the first call that failed raised.
    """
    import ray
    from ray.exceptions import RayActorError, RayTaskError

    out: dict[Any, Any] = {}
    failed: BaseException | None = None
    waiting = list(references)
    while waiting:
        ready, waiting = ray.wait(waiting, timeout=AFTER_ERROR_S if failed else None)
        if not ready:
            break
        try:
            out[ready[0]] = ray.get(ready[0])
        except RayActorError as error:
            raise WorkersLostError(DIED) from error
        except RayTaskError as error:
            failed = failed or error.cause
    if failed is not None:
        raise failed
    return [out[reference] for reference in references]
