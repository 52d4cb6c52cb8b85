"""Rules about the worlds, and about how many tasks they get."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.registry import names as built_in

GIVEN_VARIABLES = frozenset({"AGENTRL_ENV_TOKEN", "HOME", "PORT"})
"""That the operator sets in every environment server."""


@rule(
    "environments.*.builtin",
    "environments.*.image",
    "environments.*.url",
    cel="self.environments.all(e,"
    " [has(e.builtin), has(e.image), has(e.url)].exists_one(given, given))",
)
def an_environment_runs_in_one_place(spec: RunSpec) -> Iterator[Mistake]:
    """Each environment has exactly one of builtin, image and url."""
    for index, environment in enumerate(spec.environments):
        places = {
            "builtin": environment.builtin,
            "image": environment.image,
            "url": environment.url,
        }
        given = [name for name, value in places.items() if value is not None]
        if not given:
            reason = "does not say where it runs"
        elif len(given) > 1:
            reason = f"{' and '.join(given)} are given together"
        else:
            continue
        yield Mistake(
            field=f"spec.environments[{index}]",
            reason=reason,
            fix="give exactly one of builtin, image and url",
        )


@rule(
    "environments.*.builtin",
    "environments.*.replicas",
    cel="self.environments.all(e, e.replicas > 0 || has(e.builtin))",
)
def only_a_built_in_environment_needs_no_server(spec: RunSpec) -> Iterator[Mistake]:
    """replicas is 0 for a builtin only."""
    for index, environment in enumerate(spec.environments):
        if environment.replicas == 0 and environment.builtin is None:
            yield Mistake(
                field=f"spec.environments[{index}].replicas",
                reason="is 0, and only a builtin can live inside the stages",
                fix="set it to 1 or more, or leave it out",
            )


@rule(
    "environments.*.secretEnv",
    "environments.*.url",
    "environments.*.replicas",
    cel="self.environments.all(e, size(e.secretEnv) == 0 || (!has(e.url) && e.replicas > 0))",
)
def secrets_go_to_servers(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].secretEnv belongs to servers that the run starts: not to a url, nor to
    replicas 0."""
    for index, environment in enumerate(spec.environments):
        if not environment.secret_env:
            continue
        field = f"spec.environments[{index}].secretEnv"
        if environment.url is not None:
            yield Mistake(
                field=field,
                reason="the server at url runs already, and is given nothing",
                fix="leave it out, and give that server its secrets where it is started",
            )
        elif environment.replicas == 0:
            yield Mistake(
                field=field,
                reason="with replicas 0 the environment lives inside the stages and has no server",
                fix="move it to spec.compute.secretEnv, or set replicas to 1 or more",
            )


@rule("environments.*.secretEnv")
def a_secret_has_a_variable_of_its_own(spec: RunSpec) -> Iterator[Mistake]:
    """The names in an environment's secretEnv are unique, and none is one that every server is
    given: AGENTRL_ENV_TOKEN, HOME, PORT."""
    for index, environment in enumerate(spec.environments):
        names = [variable.name for variable in environment.secret_env]
        for place, name in enumerate(names):
            if name in GIVEN_VARIABLES:
                reason = f"every server is given a {name} already"
            elif name in names[:place]:
                reason = f"{name} is given twice"
            else:
                continue
            yield Mistake(
                field=f"spec.environments[{index}].secretEnv[{place}].name",
                reason=reason,
                fix="give it another name",
            )


@rule("environments.*.name")
def environments_have_names_of_their_own(spec: RunSpec) -> Iterator[Mistake]:
    """Names of environments are unique."""
    taken = [environment.name for environment in spec.environments]
    for index, name in enumerate(taken):
        if name in taken[:index]:
            yield Mistake(
                field=f"spec.environments[{index}].name",
                reason=f"{name} is already the name of environments[{taken.index(name)}]",
                fix="give it another name",
            )


@rule("environments.*.builtin")
def a_built_in_environment_is_known(spec: RunSpec) -> Iterator[Mistake]:
    """builtin is an environment of `agentrl envs list`."""
    known = sorted(built_in())
    for index, environment in enumerate(spec.environments):
        if environment.builtin is not None and environment.builtin not in known:
            near = difflib.get_close_matches(environment.builtin.lower(), known, n=1)
            yield Mistake(
                field=f"spec.environments[{index}].builtin",
                reason=f"there is no built-in environment {environment.builtin}",
                fix=f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}",
            )


@rule(
    "environments.*.builtin",
    "environments.*.tokenEnv",
    cel="self.environments.all(e, !has(e.tokenEnv) || !has(e.builtin))",
)
def a_built_in_environment_needs_no_token(spec: RunSpec) -> Iterator[Mistake]:
    """tokenEnv belongs to an environment with a url or an image."""
    for index, environment in enumerate(spec.environments):
        if environment.builtin is not None and environment.token_env is not None:
            yield Mistake(
                field=f"spec.environments[{index}].tokenEnv",
                reason="a built-in environment is not asked over the network and takes no token",
                fix="leave it out",
            )


@rule(
    "environments.*.url",
    cel="self.environments.all(e, !has(e.url) || !e.url.matches('^[^/]*//[^/?#]*@'))",
)
def no_secret_in_an_address(spec: RunSpec) -> Iterator[Mistake]:
    """The url of an environment holds no user and no password."""
    for index, environment in enumerate(spec.environments):
        url = environment.url
        if url is not None and (url.username or url.password):
            yield Mistake(
                field=f"spec.environments[{index}].url",
                reason="holds a user or a password, and a manifest is no place for a secret",
                fix="put the bearer token in an environment variable and name it in tokenEnv",
            )


@rule(
    "environments.*.name",
    "rollout.tasks",
    cel="self.rollout.tasks >= size(self.environments)",
)
def every_environment_is_played(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.tasks is at least the number of environments."""
    yield from _share(spec, "spec.rollout.tasks", spec.rollout.tasks)


@rule(
    "environments.*.name",
    "evaluation.tasks",
    cel="self.evaluation.tasks >= size(self.environments)",
)
def every_environment_is_evaluated(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.tasks is at least the number of environments."""
    yield from _share(spec, "spec.evaluation.tasks", spec.evaluation.tasks)


def _share(spec: RunSpec, field: str, tasks: int) -> Iterator[Mistake]:
    count = len(spec.environments)
    if tasks < count:
        yield Mistake(
            field=field,
            reason=f"{tasks} cannot be shared over {count} environments",
            fix=f"set it to {count} or more",
        )


RULES: tuple[Rule, ...] = (
    an_environment_runs_in_one_place,
    a_built_in_environment_is_known,
    only_a_built_in_environment_needs_no_server,
    secrets_go_to_servers,
    a_secret_has_a_variable_of_its_own,
    environments_have_names_of_their_own,
    a_built_in_environment_needs_no_token,
    no_secret_in_an_address,
    every_environment_is_played,
    every_environment_is_evaluated,
)
