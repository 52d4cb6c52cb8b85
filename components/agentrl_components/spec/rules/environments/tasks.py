"""Rules about what environments are, and about their tasks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from urllib.parse import urlsplit

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.registry import names as built_in


@environment_rule(
    "builtin",
    "image",
    "url",
    cel="has(e.url) ? !has(e.builtin) && !has(e.image) : has(e.builtin) || has(e.image)",
)
def environments_have_one_location(environment: Environment, where: str) -> Iterator[Mistake]:
    """Each environment must have a builtin, an image or both, or else a url."""
    locations = {
        "builtin": environment.builtin,
        "image": environment.image,
        "url": environment.url,
    }
    given = [name for name, value in locations.items() if value is not None]
    if not given:
        reason = "does not say where it runs"
    elif len(given) > 1 and environment.url is not None:
        reason = f"{' and '.join(given)} are given together"
    else:
        return
    yield Mistake(
        field=where,
        reason=reason,
        fix="give a builtin, an image or both, or else a url",
    )


@rule("environments.*.name")
def environment_names_are_unique(spec: RunSpec) -> Iterator[Mistake]:
    """Names of environments must be unique."""
    names = [environment.name for environment in spec.environments]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Mistake(
                field=f"spec.environments[{index}].name",
                reason=f"{name} is already the name of environments[{names.index(name)}]",
                fix="choose another name",
            )


@environment_rule(
    "builtin",
    "image",
    cel="!has(e.builtin) || has(e.image) || e.builtin.contains(':')"
    f" || e.builtin in {sorted(built_in())}",
)
def builtins_exist(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].builtin must be a built-in environment or module:Class, unless an image is
    given: what other packages call their environments is known only where they are installed."""
    known, name = sorted(built_in()), environment.builtin
    if name is None or environment.image is not None or ":" in name or name in known:
        return
    near = difflib.get_close_matches(name.lower(), known, n=1)
    yield Mistake(
        field=f"{where}.builtin",
        reason=f"there is no built-in environment {name}",
        fix=(f"did you mean {near[0]}? Else use" if near else f"use one of {', '.join(known)},")
        + " module:Class, or give the image that has it",
    )


@environment_rule("url", cel="!has(e.url) || !e.url.matches('^[^/]*//[^/?#]*@')")
def environment_urls_have_no_credentials(environment: Environment, where: str) -> Iterator[Mistake]:
    """The url of an environment may not contain a user or a password."""
    url = environment.url
    if url is not None and "@" in urlsplit(url).netloc:
        yield Mistake(
            field=f"{where}.url",
            reason="contains a user or a password, and a manifest must not contain secrets",
            fix="put the bearer token in an environment variable and set tokenEnv to its name",
        )


@environment_rule(
    "builtin",
    "options",
    "protocol",
    cel="!has(e.options) || has(e.builtin) || e.protocol != 'agentrl' || dyn(e.options) == {}",
)
def options_need_builtin(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].options requires a builtin, or a protocol other than agentrl: a server at url
    or of an image has its own configuration."""
    if environment.options and environment.builtin is None and environment.protocol == "agentrl":
        yield Mistake(
            field=f"{where}.options",
            reason="has no effect: only a builtin is given its options",
            fix="leave it out, and configure the server instead",
        )


@rule(
    "environments.*.weight",
    "rollout.tasks",
    "evaluation.tasks",
    cel="self.environments.all(e, double(self.rollout.tasks) * e.weight * 1.000001"
    " >= self.environments.map(x, x.weight).sum()"
    " && double(self.evaluation.tasks) * e.weight * 1.000001"
    " >= self.environments.map(x, x.weight).sum())",
)
def weights_give_every_environment_a_task(spec: RunSpec) -> Iterator[Mistake]:
    """The weight of each environment must give it at least one task of rollout.tasks and of
    evaluation.tasks."""
    total = sum(environment.weight for environment in spec.environments)
    for index, environment in enumerate(spec.environments):
        for field, tasks in (
            ("rollout", spec.rollout.tasks),
            ("evaluation", spec.evaluation.tasks),
        ):
            if (
                tasks >= len(spec.environments)  # else the rules below report it
                and tasks * environment.weight * (1 + 1e-6) < total
            ):
                yield Mistake(
                    field=f"spec.environments[{index}].weight",
                    reason=f"{environment.weight:g} of {total:g} is less than one of "
                    f"spec.{field}.tasks, {tasks}",
                    fix=f"set it to {total / tasks:g} or more, or raise spec.{field}.tasks",
                )


@rule(
    "environments.*.name",
    "rollout.tasks",
    cel="self.rollout.tasks >= size(self.environments)",
)
def rollout_tasks_cover_environments(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.tasks must be at least the number of environments."""
    yield from _tasks_cover(spec, "spec.rollout.tasks", spec.rollout.tasks)


@rule(
    "environments.*.name",
    "evaluation.tasks",
    cel="self.evaluation.tasks >= size(self.environments)",
)
def evaluation_tasks_cover_environments(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.tasks must be at least the number of environments."""
    yield from _tasks_cover(spec, "spec.evaluation.tasks", spec.evaluation.tasks)


def _tasks_cover(spec: RunSpec, field: str, tasks: int) -> Iterator[Mistake]:
    count = len(spec.environments)
    if tasks < count:
        yield Mistake(
            field=field,
            reason=f"{tasks} tasks cannot cover {count} environments",
            fix=f"set it to {count} or more",
        )


RULES: tuple[Rule, ...] = (
    environments_have_one_location,
    builtins_exist,
    environment_names_are_unique,
    environment_urls_have_no_credentials,
    options_need_builtin,
    weights_give_every_environment_a_task,
    rollout_tasks_cover_environments,
    evaluation_tasks_cover_environments,
)
