"""Descriptions of a run and of its model in Markdown, for the pages of MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrl_components.reporting.html import interval, percent
from agentrl_components.reporting.schema import Report
from agentrl_components.spec import RunSpec

_LONGEST = 8000
"""Characters that MLflow keeps of a description. It cuts the end off longer ones."""


def run_description(report: Report) -> str:
    """Goal, result, files and the command that reproduces the run."""
    rows = [
        f"| {name}{found.without} | {percent(found.success)} | {interval(found)} |"
        for field, name in report.heldout_names.items()
        if (found := getattr(report.heldout, field)) is not None
    ]
    checkpoints = [
        f"- {label} checkpoint: `{one.url}`"
        for label, wanted in (("best", "best"), ("last", "last"))
        for one in report.checkpoints
        if getattr(one, wanted)
    ]
    table = ["| held-out success | | 95 % interval |", "|---|---|---|", *rows] if rows else []
    text = "\n".join(
        [
            f"**{report.headline}**",
            "",
            _goal(report),
            "",
            *table,
            "",
            *checkpoints,
            "- Report and learning curve: `report.html`, `curve.png` in this run's artifacts",
            "- Played episodes: the traces of this run",
            "",
            "Reproduce it with `agentrl run run.yaml` and ",
        ]
    )
    whole = f"{text}this manifest:\n\n```yaml\n{report.manifest.rstrip()}\n```"
    return whole if len(whole) <= _LONGEST else f"{text}the manifest in `report.html`."


def model_description(report: Report, metadata: Mapping[str, Any]) -> str:
    """What the registered model is, and what it needs to act as it was trained. `metadata`: that of
    `model_metadata`."""
    template = metadata["agentrl"]["template"]
    masked = (
        "It was trained and evaluated with `rollout.actions: admissible`: every reply is chosen "
        "among the actions that the environment lists. Without that mask it generates freely, "
        "which it was not trained for: a small model then writes noise, and a large one writes "
        "replies that are often no valid action."
        if report.actions == "admissible"
        else "It generates its replies freely (`rollout.actions: free`)."
    )
    return "\n\n".join(
        [
            f"{_goal(report)} {report.headline}",
            f"Dialogue template: `{template}` (`model.template`). The input is the dialogue so "
            "far, the output is the next reply.",
            masked,
            "Watch it with `agentrl envs play ENVIRONMENT --agent models:/NAME/VERSION`, evaluate "
            "it with `agentrl eval run.yaml --model models:/NAME/VERSION`, both with the address "
            "of this registry in `MLFLOW_TRACKING_URI`.",
        ]
    )


def model_metadata(spec: RunSpec) -> dict[str, Any]:
    """JSON with what a program needs to let the model act as it was trained: dialogue template,
    choice of actions, limits and environments. `agentrl envs play --agent` reads it."""
    model = spec.model
    tiny = model.template == "auto" and model.source == "tiny"
    return {
        "agentrl": {
            "template": "plain" if tiny else model.template,
            "thinking": model.thinking,
            "actions": spec.rollout.actions,
            "context": model.context,
            "max_tokens_per_turn": spec.rollout.max_tokens_per_turn,
            "max_turns": spec.horizon.phases[-1].max_turns,
            "environments": [
                {"name": one.name, "builtin": one.builtin, "options": one.options}
                | ({"max_turns": one.max_turns[-1]} if one.max_turns else {})
                for one in spec.environments
            ],
        }
    }


def _goal(report: Report) -> str:
    after = f" after {report.warm_start}" if report.warm_start else ""
    horizon = ", ".join(phase.turns for phase in report.phases)
    return (
        f"`{report.model}` trained in {', '.join(report.environments)} by {report.algorithm}"
        f"{after}; horizon {horizon} turns; seed {report.seed}."
    )
