"""All generated tasks of a seed.

generated_tasks(0)[0].config["intent"]
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import chain, zip_longest
from random import Random

from agentrl_envs.environments.web_sites.selection import selecting
from agentrl_envs.environments.web_sites.state import seeded
from agentrl_envs.environments.web_sites.tasks import (
    code_host,
    forum,
    map,
    mixed,
    shop,
    shop_admin,
    wiki,
)
from agentrl_envs.environments.web_sites.tasks.form import SiteTask

MOST_PER_TEMPLATE = 96
"""Tasks of one template, so that no template outweighs the others."""

TEMPLATES = tuple(
    template
    for room in (shop, shop_admin, forum, code_host, map, wiki, mixed)
    for template in room.TEMPLATES
)


@cache
def generated_tasks(seed: int = 0, most: int = MOST_PER_TEMPLATE) -> tuple[SiteTask, ...]:
    """The tasks on the content of a seed, all different, the same on every machine. One of each
    template in turn, at most `most` of each; `task_id` is the index."""
    state = seeded(seed)
    drawn = []
    for template in TEMPLATES:
        tasks = list(template(state))
        Random(f"{seed} {template.__module__}.{template.__name__}").shuffle(tasks)
        drawn.append(tasks[:most])
    in_turn = [task for task in chain.from_iterable(zip_longest(*drawn)) if task is not None]
    return tuple(
        replace(task, config={"task_id": index, **task.config})
        for index, task in enumerate(in_turn)
    )


def tasks_of_contents(contents: range) -> list[SiteTask]:
    """The tasks on the contents of several seeds, one of each content in turn. Those of all but the
    first select their content by their start page."""
    drawn = [
        [_in_content(seed, each) if seed != contents[0] else each for each in generated_tasks(seed)]
        for seed in contents
    ]
    return [task for task in chain.from_iterable(zip_longest(*drawn)) if task is not None]


def _in_content(seed: int, task: SiteTask) -> SiteTask:
    start = selecting(seed, task.config["start_url"])
    return replace(task, config={**task.config, "start_url": start})


def task(seed: int, index: int) -> SiteTask:
    """The task at `index`, modulo their number."""
    tasks = generated_tasks(seed)
    return tasks[index % len(tasks)]
