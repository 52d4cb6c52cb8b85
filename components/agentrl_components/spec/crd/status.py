"""What the operator reports about a run: the schema of `status` and the columns of `kubectl
get`."""

from __future__ import annotations

from typing import Any

STATES = ("Pending", "Running", "Suspended", "Succeeded", "Failed")
"""Values of `status.state`: a summary of the conditions in one word, for people."""


def _text(description: str, longest: int = 1024) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest, "description": description}


def _count(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "minimum": 0, "description": description}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "date-time", "description": description}


_CONDITION: dict[str, Any] = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": _text("Kind of the condition.", 316)
        | {
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        },
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether it holds.",
        },
        "reason": _text("Why it was last changed, in one word.")
        | {"minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "message": _text("Why it was last changed, for people.", 32768),
        "lastTransitionTime": _time("When status last changed."),
        "observedGeneration": _count("The metadata.generation it was set for."),
    },
}

STATUS: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "description": "What the operator knows about the run. Written by the operator only.",
    "properties": {
        "state": {
            "type": "string",
            "enum": list(STATES),
            "description": "The run's state in one word.",
        },
        "observedGeneration": _count("The metadata.generation that this status answers."),
        "phaseIndex": _count("Which phase of the horizon schedule is worked on, from 0."),
        "attempt": _count("How often that phase was started anew."),
        "failures": _count("How many of those starts failed, for backoffLimit."),
        "retryTime": _time("When the next attempt begins, after one that failed."),
        "horizon": _count("maxTurns of that phase."),
        "iteration": _count("Iterations finished, over the whole run."),
        "iterations": _count("Iterations of the whole run, at most."),
        "success": _text("Held-out success as a percentage with its interval: 81% [77, 85].", 64),
        "bestCheckpoint": _text("Address of the checkpoint with the best held-out success."),
        "kfpRun": _text("Id of the phase's KFP run.", 64),
        "kfpUrl": _text("Where the Kubeflow UI shows it.", 2048),
        "mlflowRun": _text("Id of the MLflow run.", 64),
        "mlflowUrl": _text("Where MLflow shows it.", 2048),
        "message": _text("What happens now, or what went wrong, in one sentence.", 4096),
        "startTime": _time("When work first began."),
        "activeTime": _time("Since when it works without a pause."),
        "activeSeconds": _count("Seconds of work before that, for activeDeadlineSeconds."),
        "completionTime": _time("When the run succeeded or failed."),
        "cost": {
            "type": "object",
            "description": "What the run has used so far.",
            "properties": {
                "tokens": _count("Tokens sampled."),
                "environmentSeconds": _count("Seconds that environments worked."),
                "deviceSeconds": _count("Seconds that devices were held."),
            },
        },
        "conditions": {
            "type": "array",
            "maxItems": 16,
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "description": "What is true of the run.",
        },
    },
}
"""The structural schema of `status`."""


def _column(name: str, path: str, kind: str, description: str, wide: bool = False) -> Any:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": 1} if wide else column


COLUMNS: tuple[dict[str, Any], ...] = (
    _column("State", ".status.state", "string", "The run's state in one word."),
    _column("Horizon", ".status.horizon", "integer", "Turns an episode may take now."),
    _column("Iteration", ".status.iteration", "integer", "Iterations finished."),
    _column("Success", ".status.success", "string", "Held-out success."),
    _column("Age", ".metadata.creationTimestamp", "date", "Since when the run exists."),
    _column("KFP run", ".status.kfpRun", "string", "Id of the phase's KFP run.", True),
    _column("MLflow", ".status.mlflowUrl", "string", "Where MLflow shows it.", True),
    _column("Message", ".status.message", "string", "What happens now.", True),
)
"""What `kubectl get arl` prints; the last three with `-o wide`."""
