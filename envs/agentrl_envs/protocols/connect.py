"""Connects to a server of another project by the name of its protocol."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from agentrl_envs.errors import OptionError
from agentrl_envs.protocols.options import OPTIONS, option_errors
from agentrl_envs.world import World

CLIENTS = {
    "agentgym": "agentrl_envs.protocols.agentgym_client",
    "openenv": "agentrl_envs.protocols.openenv_client",
}
"""The module of each protocol, imported when it is used: OpenEnv's needs `websockets`."""


async def open_world(
    protocol: str, url: str, options: Mapping[str, Any], *, timeout_s: float = 60.0
) -> World:
    """The world of the server at `url`. Raises `OptionError` for options that the protocol does not
    take, and what its `connect` raises."""
    if lines := option_errors(protocol, options):
        raise OptionError("\n".join(f"options.{line}" for line in lines))
    given = OPTIONS[protocol].model_validate(dict(options))
    connect: Callable[..., Awaitable[World]] = importlib.import_module(CLIENTS[protocol]).connect
    return await connect(url, given, timeout_s=timeout_s)


def opener(protocol: str, url: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    """What connects when it is called, for `client.blocking.BlockingTaskSet`."""
    return partial(open_world, protocol, url, options)
