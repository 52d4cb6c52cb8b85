"""Tasks in WebArena's form on the site of `web_pages`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrl_envs.env import Task
from agentrl_envs.environments.web import WebOptions, WebTasks
from agentrl_envs.environments.web.task_config import task_of


def config(
    intent: str = "tell the price of the red mug",
    start: str = "__SHOPPING__/",
    *,
    sites: tuple[str, ...] = ("shopping",),
    login: bool = False,
    **evaluation: Any,
) -> dict[str, Any]:
    """A task; without an evaluator the answer `$12` is expected."""
    if not evaluation:
        evaluation = {"reference_answers": {"exact_match": "$12"}}
    kinds = {
        "reference_answers": "string_match",
        "reference_url": "url_match",
        "program_html": "program_html",
    }
    return {
        "task_id": 0,
        "sites": list(sites),
        "require_login": login,
        "storage_state": "./.auth/shopping_state.json" if login else None,
        "start_url": start,
        "intent": intent,
        "eval": {
            "eval_types": [kinds[name] for name in evaluation],
            "reference_answers": None,
            "reference_url": "",
            "program_html": [],
            "url_note": "GOLD in PRED",
            **evaluation,
        },
    }


def task(**values: Any) -> Task:
    return task_of(config(**values))


def task_set(folder: Path, url: str, tasks: list[dict[str, Any]] | None = None, **options: Any):
    """A task set on a site at `url`."""
    path = folder / "tasks.json"
    path.write_text(json.dumps(tasks or [config()]))
    values = {"sites": {"shopping": url}, "tasks": str(path), **options}
    return WebTasks(WebOptions.model_validate(values))
