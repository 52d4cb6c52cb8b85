"""The schema of `status`, and the printer columns of `kubectl get`."""

from __future__ import annotations

from typing import Any

STATES = ("Pending", "Running", "Suspended", "Succeeded", "Failed")
"""Values of `status.state`: a summary of the conditions in one word, for people."""
LONGEST_SUCCESS = 64
"""Maximum length of `status.success`; the API server refuses a status with a longer one."""


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
        "type": _text(
            "Type of the condition, such as Accepted; a run has one of each at most.", 316
        )
        | {
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        },
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether the condition holds. Unknown: a service did not answer.",
        },
        "reason": _text("Why the condition has its status, as one CamelCase word.")
        | {"minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "message": _text("The same with its details, for people.", 32768),
        "lastTransitionTime": _time("Time of the last change of the status."),
        "observedGeneration": _count("The metadata.generation that the condition was set for."),
    },
}

STATUS: dict[str, Any] = {
    "type": "object",
    "description": "Observed state of the run. Written only by the operator.",
    "properties": {
        "state": {
            "type": "string",
            "enum": list(STATES),
            "description": "Summary of the conditions in one word. Pending: no phase has started, "
            "or the run waits in Kueue's queue or for a correction. Running: a phase works, or the "
            "run waits to start one. Suspended: all work has stopped, as spec.suspend says. "
            "Succeeded and Failed: the run has ended.",
        },
        "observedGeneration": _count("The metadata.generation that this status refers to."),
        "phaseIndex": _count("Index of the current phase in spec.horizon.phases, from 0."),
        "attempt": _count(
            "Number of the attempt at the current phase, from 0. A resumption begins a new one."
        ),
        "failures": _count(
            "Number of failed attempts at the current phase, compared with backoffLimit."
        ),
        "retryTime": _time("Time of the next attempt after a failed one, until that begins."),
        "horizon": _count("Turn limit of the current phase."),
        "iteration": _count("Number of finished iterations, over the whole run."),
        "iterations": _count("Maximum number of iterations of the run."),
        "success": _text(
            "Success on held-out tasks of the trained policy, as a percentage with its confidence "
            "interval: 81% [77, 85]; with the names of environments that were down: 81% [77, 85] "
            "without web. Absent until its first evaluation.",
            LONGEST_SUCCESS,
        ),
        "bestCheckpoint": _text(
            "Address of the checkpoint with the highest success on held-out tasks; before the "
            "first evaluation in training, with the highest success in training."
        ),
        "kfpRun": _text("ID of the KFP run of the current phase.", 64),
        "kfpUrl": _text("URL of the KFP run in the Kubeflow UI, if the platform names one.", 2048),
        "mlflowRun": _text("ID of the MLflow run, the same one for all phases.", 64),
        "mlflowFinished": {
            "type": "boolean",
            "description": "Whether the MLflow run has its final status.",
        },
        "mlflowUrl": _text("URL of the MLflow run in the UI of its server.", 2048),
        "message": _text("Current activity or the last error, in one sentence.", 4096),
        "startTime": _time("Time at which the run first occupied resources for a phase."),
        "activeTime": _time("Start of the current period of activity. Absent while there is none."),
        "activeSeconds": _count(
            "Seconds of activity before activeTime, compared with activeDeadlineSeconds."
        ),
        "completionTime": _time("Time at which the run succeeded or failed."),
        "cost": {
            "type": "object",
            "description": "Resources used so far, over all phases and attempts.",
            "properties": {
                "tokens": _count(
                    "Tokens sampled in training; those of repeated iterations count again."
                ),
                "environmentSeconds": _count("Sum of the durations of all episodes, in seconds."),
                "deviceSeconds": _count("Seconds of activity times the number of accelerators."),
            },
        },
        "ray": {
            "type": "object",
            "description": "The run's Ray cluster, with spec.compute.ray: cluster.",
            "properties": {
                "cluster": _text("Name of the RayCluster."),
                "workers": _text("Ready pods of each worker group: trainers 8/8, samplers 4/4."),
                "dashboardUrl": _text(
                    "URL of Ray's dashboard inside the cluster. It asks for the run's token.", 2048
                ),
                "metricsUrl": _text("URL of the head's metrics inside the cluster.", 2048),
            },
        },
        "conditions": {
            "type": "array",
            "maxItems": 16,
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "description": "Conditions of the run, which say what state, why and since when.",
        },
    },
}
"""The structural schema of `status`."""


def _column(name: str, path: str, kind: str, description: str, wide: bool = False) -> Any:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | {"priority": 1} if wide else column


COLUMNS: tuple[dict[str, Any], ...] = (
    _column("State", ".status.state", "string", "Summary of the run's state in one word."),
    _column(
        "Reason",
        '.status.conditions[?(@.type=="Progressing")].reason',
        "string",
        "Reason of the Progressing condition.",
    ),
    _column("Horizon", ".status.horizon", "integer", "Turn limit of the current phase."),
    _column("Iteration", ".status.iteration", "integer", "Finished iterations."),
    _column("Success", ".status.success", "string", "Success on held-out tasks."),
    _column("Age", ".metadata.creationTimestamp", "date", "Time since creation."),
    _column("Ray", ".status.ray.workers", "string", "Trainers and samplers in ready pods.", True),
    _column("KFP run", ".status.kfpRun", "string", "ID of the KFP run of the current phase.", True),
    _column("MLflow", ".status.mlflowUrl", "string", "URL of the MLflow run.", True),
    _column("Message", ".status.message", "string", "Current activity or the last error.", True),
)
"""Columns of `kubectl get arl`; those with priority 1 only with `-o wide`."""
