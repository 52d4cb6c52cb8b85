"""Rules about environments and their tasks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from urllib.parse import urlsplit

from agentrl_components.spec.fields.compute import quantity_value
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.needs import PYTHON_ONLY
from agentrl_envs.registry import names as built_in
from agentrl_envs.registry import needs

RESERVED_VARIABLES = frozenset({"AGENTRL_ENV_TOKEN", "HOME", "PORT"})
"""Environment variables that the operator sets in every environment server."""


@rule(
    "environments.*.builtin",
    "environments.*.image",
    "environments.*.url",
    cel="self.environments.all(e, has(e.url) ? !has(e.builtin) && !has(e.image)"
    " : has(e.builtin) || has(e.image))",
)
def environments_have_one_location(spec: RunSpec) -> Iterator[Mistake]:
    """Each environment must have a builtin, an image or both, or else a url."""
    for index, environment in enumerate(spec.environments):
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
            continue
        yield Mistake(
            field=f"spec.environments[{index}]",
            reason=reason,
            fix="give a builtin, an image or both, or else a url",
        )


@rule(
    "environments.*.builtin",
    "environments.*.image",
    "environments.*.replicas",
    cel="self.environments.all(e, e.replicas > 0 || (has(e.builtin) && !has(e.image)))",
)
def zero_replicas_need_builtin(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].replicas may be 0 only for a builtin without an image."""
    for index, environment in enumerate(spec.environments):
        if environment.replicas > 0:
            continue
        if environment.builtin is not None and environment.image is not None:
            yield Mistake(
                field=f"spec.environments[{index}].image",
                reason="is not used with replicas 0: the environment runs inside the stages",
                fix="leave it out and set spec.compute.image to an image of the stages that has "
                "the environment's package, or set replicas to 1 or more",
            )
        if environment.builtin is None:
            yield Mistake(
                field=f"spec.environments[{index}].replicas",
                reason="is 0, and only a builtin can run inside the stages",
                fix="set it to 1 or more, or leave it out",
            )


@rule("environments.*.builtin", "environments.*.replicas", "compute.image")
def zero_replicas_need_the_packages(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].replicas may be 0 only for a builtin whose packages are in the stages' image;
    an own compute.image may have them all."""
    for index, environment in enumerate(spec.environments):
        image = needs(environment.builtin or "").image
        if environment.replicas == 0 and image != "envs" and spec.compute.image is None:
            yield Mistake(
                field=f"spec.environments[{index}].replicas",
                reason=f"is 0, and the image of the stages cannot run {environment.builtin}: its "
                f"servers use the image {image}",
                fix="set it to 1 or more, or set spec.compute.image to an image that can",
            )


@rule("environments.*.builtin", "environments.*.memory")
def memory_fits_builtin(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].memory may not be less than a builtin needs."""
    for index, environment in enumerate(spec.environments):
        needed_mib = needs(environment.builtin or "").memory_mib
        if (
            environment.builtin is not None
            and environment.memory is not None
            and needed_mib > PYTHON_ONLY.memory_mib  # the others may be given less
            and quantity_value(environment.memory) < needed_mib * 2**20
        ):
            yield Mistake(
                field=f"spec.environments[{index}].memory",
                reason=f"{environment.memory} is less than {environment.builtin} needs",
                fix=f"leave it out, or set it to {needed_mib}Mi or more",
            )


@rule(
    "environments.*.secretEnv",
    "environments.*.url",
    "environments.*.replicas",
    cel="self.environments.all(e, size(e.secretEnv) == 0 || (!has(e.url) && e.replicas > 0))",
)
def secret_env_needs_server(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].secretEnv requires servers that the run starts: no url, and replicas above
    0."""
    for index, environment in enumerate(spec.environments):
        if not environment.secret_env:
            continue
        field = f"spec.environments[{index}].secretEnv"
        if environment.url is not None:
            yield Mistake(
                field=field,
                reason="the server at url is not started by this run",
                fix="leave it out, and configure the secrets of that server where it is started",
            )
        elif environment.replicas == 0:
            yield Mistake(
                field=field,
                reason="with replicas 0 the environment runs inside the stages, without a server",
                fix="move it to spec.compute.secretEnv, or set replicas to 1 or more",
            )


@rule(
    "environments.*.secretEnv",
    cel="self.environments.all(e, e.secretEnv.all(v,"
    f" !(v.name in {sorted(RESERVED_VARIABLES)})"
    " && e.secretEnv.exists_one(same, same.name == v.name)))",
)
def secret_env_names_are_free(spec: RunSpec) -> Iterator[Mistake]:
    """Names in an environment's secretEnv must be unique and not reserved: AGENTRL_ENV_TOKEN, HOME
    and PORT are set by the operator."""
    for index, environment in enumerate(spec.environments):
        names = [variable.name for variable in environment.secret_env]
        for position, name in enumerate(names):
            if name in RESERVED_VARIABLES:
                reason = f"{name} is set by the operator in every server"
            elif name in names[:position]:
                reason = f"{name} is a duplicate"
            else:
                continue
            yield Mistake(
                field=f"spec.environments[{index}].secretEnv[{position}].name",
                reason=reason,
                fix="choose another name",
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


@rule(
    "environments.*.builtin",
    "environments.*.image",
    cel="self.environments.all(e, !has(e.builtin) || has(e.image) || e.builtin.contains(':')"
    f" || e.builtin in {sorted(built_in())})",
)
def builtins_exist(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].builtin must be a built-in environment or module:Class, unless an image is
    given: what other packages call their environments is known only where they are installed."""
    known = sorted(built_in())
    for index, environment in enumerate(spec.environments):
        name = environment.builtin
        if name is None or environment.image is not None or ":" in name or name in known:
            continue
        near = difflib.get_close_matches(name.lower(), known, n=1)
        yield Mistake(
            field=f"spec.environments[{index}].builtin",
            reason=f"there is no built-in environment {name}",
            fix=f"did you mean {near[0]}?"
            if near
            else f"use one of {', '.join(known)}, module:Class, or give the image that has it",
        )


@rule(
    "environments.*.builtin",
    "environments.*.tokenEnv",
    cel="self.environments.all(e, !has(e.tokenEnv) || !has(e.builtin))",
)
def token_env_needs_server(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].tokenEnv requires an environment with a url or an image."""
    for index, environment in enumerate(spec.environments):
        if environment.builtin is not None and environment.token_env is not None:
            yield Mistake(
                field=f"spec.environments[{index}].tokenEnv",
                reason="a built-in environment takes no token",
                fix="leave it out",
            )


@rule(
    "environments.*.url",
    cel="self.environments.all(e, !has(e.url) || !e.url.matches('^[^/]*//[^/?#]*@'))",
)
def environment_urls_have_no_credentials(spec: RunSpec) -> Iterator[Mistake]:
    """The url of an environment may not contain a user or a password."""
    for index, environment in enumerate(spec.environments):
        url = environment.url
        if url is not None and "@" in urlsplit(url).netloc:
            yield Mistake(
                field=f"spec.environments[{index}].url",
                reason="contains a user or a password, and a manifest must not contain secrets",
                fix="put the bearer token in an environment variable and set tokenEnv to its name",
            )


@rule(
    "environments.*.protocol",
    "environments.*.url",
    "environments.*.replicas",
    "environments.*.tokenEnv",
    cel="self.environments.all(e, e.protocol == 'agentrl'"
    " || (has(e.url) && e.replicas == 1 && !has(e.tokenEnv)))",
)
def protocols_need_url(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].protocol other than agentrl requires a url, one replica and no tokenEnv: the
    protocols of other projects know neither tokens nor several servers."""
    for index, environment in enumerate(spec.environments):
        if environment.protocol == "agentrl":
            continue
        where, protocol = f"spec.environments[{index}]", environment.protocol
        if environment.url is None:
            yield Mistake(
                field=f"{where}.protocol",
                reason=f"is {protocol}, which is spoken to a server that is already running",
                fix="give its url, or leave protocol out",
            )
        if environment.replicas != 1:
            yield Mistake(
                field=f"{where}.replicas",
                reason=f"protocol {protocol} has no sessions on several servers",
                fix="leave it out, and give each server as an environment of its own",
            )
        if environment.token_env is not None:
            yield Mistake(
                field=f"{where}.tokenEnv",
                reason=f"servers of protocol {protocol} know no tokens",
                fix="leave it out, and protect the server by its network",
            )


@rule("environments.*.builtin", "environments.*.options", "environments.*.protocol")
def options_need_builtin(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].options requires a builtin, or a protocol other than agentrl: a server at url
    or of an image has its own configuration."""
    for index, environment in enumerate(spec.environments):
        if (
            environment.options
            and environment.builtin is None
            and environment.protocol == "agentrl"
        ):
            yield Mistake(
                field=f"spec.environments[{index}].options",
                reason="has no effect: only a builtin is given its options",
                fix="leave it out, and configure the server instead",
            )


@rule("environments.*.builtin", "environments.*.options", "model.source")
def babyai_text_fits_model(spec: RunSpec) -> Iterator[Mistake]:
    """An hf:// model in babyai requires options.text, whose default has no instructions."""
    for index, environment in enumerate(spec.environments):
        if (
            environment.builtin == "babyai"
            and spec.model.source.startswith("hf://")
            and "text" not in environment.options
        ):
            yield Mistake(
                field=f"spec.environments[{index}].options.text",
                reason="is missing: the default, terse, has no instructions, which a pretrained "
                "model needs",
                fix="set it to agentgym, or to terse if that is intended",
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
    zero_replicas_need_builtin,
    zero_replicas_need_the_packages,
    memory_fits_builtin,
    secret_env_needs_server,
    secret_env_names_are_free,
    environment_names_are_unique,
    token_env_needs_server,
    environment_urls_have_no_credentials,
    options_need_builtin,
    protocols_need_url,
    babyai_text_fits_model,
    weights_give_every_environment_a_task,
    rollout_tasks_cover_environments,
    evaluation_tasks_cover_environments,
)
