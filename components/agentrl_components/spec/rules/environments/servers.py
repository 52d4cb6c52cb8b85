"""Rules about the servers of an environment: variables, volumes, tokens, protocols."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.rules.compute.volumes import free_places, place_mistakes
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule
from agentrl_components.spec.rules.variables import free_names, name_mistakes

RESERVED_VARIABLES = frozenset({"AGENTRL_ENV_TOKEN", "HOME", "PORT"})
"""Environment variables that the operator sets in every environment server."""


@environment_rule(
    "secretEnv",
    "env",
    "volumes",
    "nodeSelector",
    "tolerations",
    "url",
    "replicas",
    cel="(size(e.secretEnv) == 0 && size(e.env) == 0 && size(e.volumes) == 0"
    " && size(e.tolerations) == 0 && (!has(e.nodeSelector) || size(e.nodeSelector) == 0))"
    " || (!has(e.url) && e.replicas > 0)",
)
def fields_of_servers_need_servers(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].secretEnv, env, volumes, nodeSelector and tolerations require servers that the
    run starts: no url, and replicas above 0."""
    fields = {
        "secretEnv": environment.secret_env,
        "env": environment.env,
        "volumes": environment.volumes,
        "nodeSelector": environment.node_selector,
        "tolerations": environment.tolerations,
    }
    for name in (name for name, value in fields.items() if value):
        if environment.url is not None:
            yield Mistake(
                field=f"{where}.{name}",
                reason="the server at url is not started by this run",
                fix="leave it out, and configure that server where it is started",
            )
        elif environment.replicas == 0:
            yield Mistake(
                field=f"{where}.{name}",
                reason="with replicas 0 the environment runs inside the stages, without a server",
                fix=f"move it to spec.compute.{name}, or set replicas to 1 or more",
            )


@environment_rule(
    "secretEnv",
    "env",
    cel=free_names("e.secretEnv", RESERVED_VARIABLES)
    + " && "
    + free_names("e.env", RESERVED_VARIABLES, "e.secretEnv"),
)
def names_of_variables_are_free(environment: Environment, where: str) -> Iterator[Mistake]:
    """Names in an environment's secretEnv and env must be unique and not reserved:
    AGENTRL_ENV_TOKEN, HOME and PORT are set by the operator."""
    why, secrets = "is set by the operator in every server", environment.secret_env
    yield from name_mistakes(f"{where}.secretEnv", secrets, RESERVED_VARIABLES, why)
    yield from name_mistakes(f"{where}.env", environment.env, RESERVED_VARIABLES, why, secrets)


@environment_rule("volumes", cel=free_places("e.volumes"))
def volumes_of_servers_do_not_collide(environment: Environment, where: str) -> Iterator[Mistake]:
    """Claims and paths in an environment's volumes must be unique and not those of another volume,
    as in compute.volumes."""
    yield from place_mistakes(f"{where}.volumes", environment.volumes)


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


RULES: tuple[Rule, ...] = (
    fields_of_servers_need_servers,
    names_of_variables_are_free,
    volumes_of_servers_do_not_collide,
    token_env_needs_server,
    protocols_need_url,
)
