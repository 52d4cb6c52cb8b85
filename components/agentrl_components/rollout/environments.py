"""Opens the environments of a manifest, in this process or over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from agentrl_components.errors import SpecError
from agentrl_components.spec import Environment
from agentrl_envs.calls.stop_iteration import without_stop_iteration
from agentrl_envs.calls.watch import WATCH, CallWatch
from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Waits, start_programs
from agentrl_envs.errors import OptionError, SessionError
from agentrl_envs.http.address import address_of
from agentrl_envs.protocols.connect import open_world as open_foreign
from agentrl_envs.registry import needs, task_set
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld, World


async def open_worlds(environments: Sequence[Environment]) -> dict[str, World]:
    """A `World` for each environment, by name. Raises `SpecError` for options that an environment
    refuses."""
    return {e.name: await open_world(e, i) for i, e in enumerate(environments)}


async def open_world(environment: Environment, index: int = 0, watch: CallWatch = WATCH) -> World:
    """The `World` of one environment; `index` is its position in `spec.environments`. `watch`
    reports calls in this process and its worker processes that take long."""
    if environment.builtin is not None:
        try:
            return await _open_builtin(environment.builtin, environment, watch)
        except OptionError as error:
            where = f"spec.environments[{index}]"
            raise SpecError([f"{where}: {line}" for line in str(error).splitlines()]) from error
    if environment.protocol != "agentrl":
        try:
            return await open_foreign(
                environment.protocol,
                str(environment.url),
                environment.options,
                timeout_s=environment.timeout_s,
            )
        except OptionError as error:
            where = f"spec.environments[{index}]"
            raise SpecError([f"{where}.options: {line}" for line in str(error).splitlines()]) from (
                error
            )
    token = os.environ.get(environment.token_env) if environment.token_env else None
    options = ClientOptions(call_s=environment.timeout_s)
    url = str(environment.url)
    if environment.replicas > 1:
        # Servers are called by their addresses, which their certificates do not name.
        options = replace(options, tls_name=urlsplit(url).hostname)
        return await RemoteWorld.connect(
            discovery=partial(servers, url), token=token, options=options
        )
    return await RemoteWorld.connect(url, token=token, options=options)


async def _open_builtin(builtin: str, environment: Environment, watch: CallWatch) -> World:
    """The `World` of an environment in this process, or in worker processes. Raises `OptionError`
    for options that it refuses."""
    factory = partial(task_set, builtin, environment.options)
    construction = watch.call(environment.name, "construction of its task set")
    if environment.workers:
        with construction:
            return ProcessWorld(
                factory,
                workers=environment.workers,
                timeout_s=environment.timeout_s,
                watch=watch,
            )
    with construction:
        tasks = factory()
    waits = isinstance(tasks, Waits) and tasks.waits
    with watch.call(tasks.name, "start of its programs"):
        await asyncio.to_thread(without_stop_iteration, start_programs, tasks)
    in_threads = waits or bool(needs(builtin).programs)
    return LocalWorld(tasks, in_threads=in_threads, watch=watch)


async def servers(url: str) -> list[str]:
    """One URL for each server behind a host name. A session belongs to one server, so requests must
    not follow a name that resolves to varying addresses. Raises `SessionError` if the name does not
    resolve."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            parts.hostname, port, type=socket.SOCK_STREAM
        )
    except socket.gaierror as error:
        raise SessionError(f"{url}: {parts.hostname} has no address: {error}") from error
    hosts = sorted({str(address[0]) for *_, address in found})
    return [parts._replace(netloc=address_of(host, port)).geturl() for host in hosts]
