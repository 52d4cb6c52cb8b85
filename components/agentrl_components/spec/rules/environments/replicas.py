"""Rules about where an environment computes: its servers, or processes of the stages."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.quantities import quantity_value
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule, rule
from agentrl_envs.needs import PYTHON_ONLY
from agentrl_envs.registry import needs

DEFAULT_TIMEOUT_S = Environment.model_fields["timeout_s"].default


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


@environment_rule(
    "builtin",
    "replicas",
    "workers",
    "timeoutS",
    cel=f"e.replicas > 0 || e.workers > 0 || e.timeoutS == {DEFAULT_TIMEOUT_S}",
)
def timeouts_need_processes(environment: Environment, where: str) -> Iterator[Mistake]:
    """environments[].timeoutS requires servers, or workers with replicas 0: a call inside the
    stages' own process cannot be ended."""
    if environment.replicas == 0 == environment.workers and (
        environment.timeout_s != DEFAULT_TIMEOUT_S
    ):
        own_program = bool(needs(environment.builtin or "").programs)
        yield Mistake(
            field=f"{where}.timeoutS",
            reason="with replicas 0 and no workers the environment runs in the process of the "
            "stage, where a call cannot be ended",
            fix="leave it out, or set "
            + ("replicas to 1 or more" if own_program else "workers or replicas to 1 or more"),
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


RULES: tuple[Rule, ...] = (
    zero_replicas_need_builtin,
    zero_replicas_need_the_packages,
    workers_need_no_server,
    workers_run_python,
    timeouts_need_processes,
    memory_fits_builtin,
)
