"""Rules about the servers of an environment: variables, volumes, tokens, protocols."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.compute.volumes import free_places, place_mistakes
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_components.spec.rules.variables import free_names, name_mistakes
from agentrl_envs.variables import OTHER_SERVICES, is_of_another_service

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


@rule(
    "environments.*.tokenEnv",
    "storage.accessKeyEnv",
    "storage.secretKeyEnv",
    cel="self.environments.all(e, !has(e.tokenEnv)"
    f" || (!e.tokenEnv.matches('{OTHER_SERVICES}')"
    " && e.tokenEnv != self.storage.accessKeyEnv && e.tokenEnv != self.storage.secretKeyEnv))",
)
def tokens_are_of_the_server(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].tokenEnv may not name a variable of the object store or of another well-known
    service, such as AWS_SECRET_ACCESS_KEY: its value is sent to the server."""
    of_store = (spec.storage.access_key_env, spec.storage.secret_key_env)
    for index, environment in enumerate(spec.environments):
        name = environment.token_env
        if name is not None and (name in of_store or is_of_another_service(name)):
            yield Mistake(
                field=f"spec.environments[{index}].tokenEnv",
                reason=f"{name} is a variable of another service, and is sent to this server",
                fix="put the server's token into a variable with another name",
            )


@rule("environments.*.options", "storage.accessKeyEnv", "storage.secretKeyEnv")
def options_name_no_keys_of_the_store(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].options whose names end in _env may not name a variable of the object
    store."""
    of_store = (spec.storage.access_key_env, spec.storage.secret_key_env)
    for index, environment in enumerate(spec.environments):
        for path, name in _variables_in(environment.options, f"spec.environments[{index}].options"):
            if name in of_store:
                yield Mistake(
                    field=path,
                    reason=f"{name} holds a key of the object store",
                    fix="put the value into a variable with another name",
                )


def _variables_in(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    """The options whose names end in `_env`, by their paths."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("_env") and isinstance(each, str):
                yield f"{path}.{name}", each
            yield from _variables_in(each, f"{path}.{name}")
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from _variables_in(each, f"{path}[{position}]")


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
    tokens_are_of_the_server,
    options_name_no_keys_of_the_store,
    protocols_need_url,
)
