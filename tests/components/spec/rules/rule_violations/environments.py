"""Violations of the rules about environments and their shares of the tasks."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "environments_have_one_location",
        ("environments[0].builtin=null", "environments[1].url='http://a:1'"),
        ["spec.environments[0]", "spec.environments[1]"],
    ),
    (
        "builtins_exist",
        ("environments[0].builtin=babiai",),
        ["spec.environments[0].builtin"],
    ),
    (
        "environment_names_are_unique",
        ("environments[1].name=rooms",),
        ["spec.environments[1].name"],
    ),
    (
        "environment_urls_have_no_credentials",
        ("environments[0]={name: rooms, url: 'http://me:pw@host:8000'}",),
        ["spec.environments[0].url"],
    ),
    (
        "options_need_builtin",
        ("environments[1]={name: web, url: 'http://a:1', options: {length: 3}}",),
        ["spec.environments[1].options"],
    ),
    (
        "text_fits_model",
        ("model.source=hf://org/name",),
        ["spec.environments[0].options.text"],
    ),
    (
        "weights_give_every_environment_a_task",
        ("environments[1].weight=0.1", "evaluation.tasks=10", "rollout.tasks=11"),
        ["spec.environments[1].weight"],
    ),
    ("rollout_tasks_cover_environments", ("rollout.tasks=1",), ["spec.rollout.tasks"]),
    ("evaluation_tasks_cover_environments", ("evaluation.tasks=1",), ["spec.evaluation.tasks"]),
]
