"""The worlds of a manifest, opened."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentrl_components.errors import SpecError
from agentrl_components.spec import Environment
from agentrl_envs.client import RemoteTaskSet
from agentrl_envs.registry import OptionError, task_set
from agentrl_envs.session import LocalWorld, World
from agentrl_envs.transport import Patience


async def open_worlds(environments: Sequence[Environment]) -> dict[str, World]:
    """A world for each environment, by name. Raises `SpecError` for options an environment
    refuses."""
    return {e.name: await open_world(e, i) for i, e in enumerate(environments)}


async def open_world(environment: Environment, index: int = 0) -> World:
    """One world."""
    if environment.builtin is not None:
        try:
            return LocalWorld(task_set(environment.builtin, environment.options))
        except OptionError as error:
            where = f"spec.environments[{index}]"
            raise SpecError([f"{where}: {line}" for line in str(error).splitlines()]) from error
    token = os.environ.get(environment.token_env) if environment.token_env else None
    patience = Patience(call_s=environment.timeout_s)
    return await RemoteTaskSet.connect(str(environment.url), token=token, patience=patience)
