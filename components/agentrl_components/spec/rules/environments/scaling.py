"""Rules about the number of servers of an environment, and what runs them."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule


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
    scaling_needs_servers,
    backends_need_servers,
    scaling_has_room,
    sessions_per_server_needs_builtin,
)
