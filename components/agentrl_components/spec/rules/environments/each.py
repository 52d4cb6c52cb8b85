"""Rules that are about each environment by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule

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
