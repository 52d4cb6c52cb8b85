"""Rules about the servers of environments: replicas, memory, variables, tokens, protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from agentrl_components.spec.fields.compute import quantity_value
from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.needs import PYTHON_ONLY
from agentrl_envs.registry import needs

RESERVED_VARIABLES = frozenset({"AGENTRL_ENV_TOKEN", "HOME", "PORT"})
"""Environment variables that the operator sets in every environment server."""

EnvironmentCheck = Callable[[Environment, str], Iterator[Mistake]]


def environment_rule(*reads: str, cel: str | None = None) -> Callable[[EnvironmentCheck], Rule]:
    """A `rule` about each environment by itself. The decorated function gets the environment and
    its path in the manifest. `reads` are paths under the environment, and `cel` is about it as
    `e`."""

    def decorate(check: EnvironmentCheck) -> Rule:
        @wraps(check)
        def check_each(spec: RunSpec) -> Iterator[Mistake]:
            for index, environment in enumerate(spec.environments):
                yield from check(environment, f"spec.environments[{index}]")

        paths = (f"environments.*.{path}" for path in reads)
        return rule(*paths, cel=None if cel is None else f"self.environments.all(e, {cel})")(
            check_each
        )

    return decorate


@environment_rule(
    "builtin",
    "image",
    "replicas",
    cel="e.replicas > 0 || (has(e.builtin) && !has(e.image))",
)
def zero_replicas_need_builtin(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].replicas may be 0 only for a builtin without an image."""
    if environment.replicas > 0:
        return
    if environment.builtin is not None and environment.image is not None:
        yield Mistake(
            field=f"{where}.image",
            reason="is not used with replicas 0: the environment runs inside the stages",
            fix="leave it out and set spec.compute.image to an image of the stages that has "
            "the environment's package, or set replicas to 1 or more",
        )
    if environment.builtin is None:
        yield Mistake(
            field=f"{where}.replicas",
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


@environment_rule(
    "builtin",
    "replicas",
    "workers",
    cel="e.workers == 0 || (has(e.builtin) && e.replicas == 0)",
)
def workers_need_no_server(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].workers requires a builtin that runs inside the stages: replicas 0."""
    if environment.workers == 0:
        return
    if environment.builtin is None:
        yield Mistake(
            field=f"{where}.workers",
            reason="has no effect on the server of an environment with a url or an image",
            fix="leave it out, and start that server with --workers",
        )
    elif environment.replicas > 0:
        yield Mistake(
            field=f"{where}.workers",
            reason=f"is for an environment without servers, and replicas is {environment.replicas}",
            fix="leave it out, or set replicas to 0",
        )


@environment_rule("builtin", "workers")
def workers_run_python(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].workers may not be set for a builtin that starts a program of its own, such
    as sciworld."""
    programs = needs(environment.builtin or "").programs
    if environment.workers > 0 and programs:
        yield Mistake(
            field=f"{where}.workers",
            reason=f"{environment.builtin} computes in another process already: {programs[0].name}",
            fix="leave it out",
        )


@environment_rule("builtin", "memory")
def memory_fits_builtin(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].memory may not be less than a builtin needs."""
    needed_mib = needs(environment.builtin or "").memory_mib
    if (
        environment.builtin is not None
        and environment.memory is not None
        and needed_mib > PYTHON_ONLY.memory_mib  # the others may be given less
        and quantity_value(environment.memory) < needed_mib * 2**20
    ):
        yield Mistake(
            field=f"{where}.memory",
            reason=f"{environment.memory} is less than {environment.builtin} needs",
            fix=f"leave it out, or set it to {needed_mib}Mi or more",
        )


@environment_rule(
    "secretEnv",
    "url",
    "replicas",
    cel="size(e.secretEnv) == 0 || (!has(e.url) && e.replicas > 0)",
)
def secret_env_needs_server(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].secretEnv requires servers that the run starts: no url, and replicas above
    0."""
    if not environment.secret_env:
        return
    if environment.url is not None:
        yield Mistake(
            field=f"{where}.secretEnv",
            reason="the server at url is not started by this run",
            fix="leave it out, and configure the secrets of that server where it is started",
        )
    elif environment.replicas == 0:
        yield Mistake(
            field=f"{where}.secretEnv",
            reason="with replicas 0 the environment runs inside the stages, without a server",
            fix="move it to spec.compute.secretEnv, or set replicas to 1 or more",
        )


@environment_rule(
    "secretEnv",
    cel=f"e.secretEnv.all(v, !(v.name in {sorted(RESERVED_VARIABLES)})"
    " && e.secretEnv.exists_one(same, same.name == v.name))",
)
def secret_env_names_are_free(environment: Environment, where: str) -> Iterator[Mistake]:
    """Names in an environment's secretEnv must be unique and not reserved: AGENTRL_ENV_TOKEN, HOME
    and PORT are set by the operator."""
    names = [variable.name for variable in environment.secret_env]
    for position, name in enumerate(names):
        if name in RESERVED_VARIABLES:
            reason = f"{name} is set by the operator in every server"
        elif name in names[:position]:
            reason = f"{name} is a duplicate"
        else:
            continue
        yield Mistake(
            field=f"{where}.secretEnv[{position}].name",
            reason=reason,
            fix="choose another name",
        )


@environment_rule("builtin", "tokenEnv", cel="!has(e.tokenEnv) || !has(e.builtin)")
def token_env_needs_server(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].tokenEnv requires an environment with a url or an image."""
    if environment.builtin is not None and environment.token_env is not None:
        yield Mistake(
            field=f"{where}.tokenEnv",
            reason="a built-in environment takes no token",
            fix="leave it out",
        )


@environment_rule(
    "protocol",
    "url",
    "replicas",
    "tokenEnv",
    cel="e.protocol == 'agentrl' || (has(e.url) && e.replicas == 1 && !has(e.tokenEnv))",
)
def protocols_need_url(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].protocol other than agentrl requires a url, one replica and no tokenEnv: the
    protocols of other projects know neither tokens nor several servers."""
    protocol = environment.protocol
    if protocol == "agentrl":
        return
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


@environment_rule(
    "scaling",
    "url",
    "replicas",
    cel="!has(e.scaling) || (!has(e.url) && e.replicas == 1)",
)
def scaling_needs_servers(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].scaling requires a builtin or an image without a url, and takes the place of
    replicas."""
    if environment.scaling is None:
        return
    if environment.url is not None:
        yield Mistake(
            field=f"{where}.scaling",
            reason="has no effect on a server at a url",
            fix="leave it out, and scale that server where it runs",
        )
    if environment.replicas != 1:
        yield Mistake(
            field=f"{where}.replicas",
            reason=f"is {environment.replicas}, and scaling chooses the number of servers",
            fix="leave it out, and set scaling.minReplicas",
        )


@environment_rule(
    "backend",
    "runtimeClassName",
    "url",
    "replicas",
    "scaling",
    cel="(e.backend == 'deployment' && !has(e.runtimeClassName))"
    " || (!has(e.url) && e.replicas > 0 && (e.backend == 'deployment' || !has(e.scaling)))",
)
def backends_need_servers(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].backend sandbox and runtimeClassName require servers that the run starts: no
    url, and replicas above 0. The number of sandboxes does not follow scaling."""
    sandbox = environment.backend == "sandbox"
    given = {"backend": sandbox, "runtimeClassName": environment.runtime_class_name is not None}
    served = environment.url is None and environment.replicas > 0
    for field in (name for name, is_given in given.items() if is_given and not served):
        yield Mistake(
            field=f"{where}.{field}",
            reason="has no effect: this run starts no server of the environment",
            fix="leave it out, or leave out url and set replicas to 1 or more",
        )
    if sandbox and environment.scaling is not None:
        yield Mistake(
            field=f"{where}.scaling",
            reason="does not change the number of sandboxes",
            fix="set replicas in its place, or leave out backend",
        )


@environment_rule(
    "scaling.minReplicas",
    "scaling.maxReplicas",
    cel="!has(e.scaling) || e.scaling.minReplicas <= e.scaling.maxReplicas",
)
def scaling_has_room(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].scaling.minReplicas may not exceed maxReplicas."""
    scaling = environment.scaling
    if scaling is not None and scaling.min_replicas > scaling.max_replicas:
        yield Mistake(
            field=f"{where}.scaling.minReplicas",
            reason=f"{scaling.min_replicas} is more than maxReplicas, {scaling.max_replicas}",
            fix=f"set it to {scaling.max_replicas} or less, or raise maxReplicas",
        )


@environment_rule(
    "scaling.sessionsPerServer",
    "builtin",
    cel="!has(e.scaling) || !has(e.scaling.sessionsPerServer) || has(e.builtin)",
)
def sessions_per_server_needs_builtin(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].scaling.sessionsPerServer requires a builtin: the server of an image has its
    own limit."""
    scaling = environment.scaling
    limited = scaling is not None and scaling.sessions_per_server is not None
    if limited and environment.builtin is None:
        yield Mistake(
            field=f"{where}.scaling.sessionsPerServer",
            reason="has no effect: only the server of a builtin is given its limit",
            fix="leave it out, and set the limit in the image",
        )


RULES: tuple[Rule, ...] = (
    zero_replicas_need_builtin,
    zero_replicas_need_the_packages,
    workers_need_no_server,
    workers_run_python,
    memory_fits_builtin,
    secret_env_needs_server,
    secret_env_names_are_free,
    token_env_needs_server,
    protocols_need_url,
    scaling_needs_servers,
    backends_need_servers,
    scaling_has_room,
    sessions_per_server_needs_builtin,
)
