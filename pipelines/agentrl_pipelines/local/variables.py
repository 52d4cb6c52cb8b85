"""The environment variables of a manifest, and those that it may not use, for commands on this
machine.

In a pod all credentials are those that its run was given. On this machine they are also those of
its user, and the manifest may be somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from agentrl_components.errors import SpecError
from agentrl_components.spec import Compute, Mistake, Tracking
from agentrl_components.tracking.mlflow.messages import database_uri

MLFLOW_URI = "MLFLOW_TRACKING_URI"
MLFLOW_CREDENTIALS = (
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_AUTH",
)

ADDRESSES = {
    MLFLOW_URI: MLFLOW_CREDENTIALS,
    "HF_ENDPOINT": ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
}
"""Variables with the address of a service, and those whose values are sent there."""


def set_variables(compute: Compute, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of `compute.env` that are not set in this process. Call it before what
    reads them is imported: a client of a model hub, an engine, an environment.

    Raises `SpecError` for the address of a service whose credentials are set."""
    mistakes = list(_new_addresses(compute, environment))
    if mistakes:
        raise SpecError([str(mistake) for mistake in mistakes])
    for variable in compute.env:
        environment.setdefault(variable.name, variable.value)


def _new_addresses(compute: Compute, environment: Mapping[str, str]) -> Iterator[Mistake]:
    for index, variable in enumerate(compute.env):
        sent = [name for name in ADDRESSES.get(variable.name, ()) if environment.get(name)]
        if sent and variable.name not in environment:
            yield Mistake(
                field=f"spec.compute.env[{index}]",
                reason=f"would have {' and '.join(sent)} of this machine sent to {variable.value}",
                fix=f"set {variable.name} to the service that they are for",
            )


def tracking_warnings(
    tracking: Tracking, root: Path, environment: Mapping[str, str] = os.environ
) -> Iterator[Mistake]:
    """An address of MLflow to which other programs record, and the run in the folder `root` does
    not."""
    if tracking.uri is not None or environment.get("MLFLOW_RUN_ID"):
        return  # with a run of MLflow, that one is recorded in
    if environment.get(MLFLOW_URI, "") not in ("", database_uri(root)):
        yield Mistake(
            field="spec.tracking.uri",
            reason=f"is not set: the run is recorded in its folder, and not at {MLFLOW_URI}",
            fix="to record there, set it to that address",
        )


def tracking_mistakes(
    tracking: Tracking, environment: Mapping[str, str] = os.environ
) -> Iterator[Mistake]:
    """Credentials of MLflow that are not known to be for the server of the manifest. To be called
    before `set_variables`."""
    uri = (tracking.uri or "").rstrip("/")
    sent = [name for name in MLFLOW_CREDENTIALS if environment.get(name)]
    known = environment.get(MLFLOW_URI, "").rstrip("/")
    if uri.lower().startswith("http") and sent and known != uri:
        yield Mistake(
            field="spec.tracking.uri",
            reason=f"{' and '.join(sent)} would be sent to it",
            fix=f"if that is right, set {MLFLOW_URI} to {uri}; else unset them",
        )
