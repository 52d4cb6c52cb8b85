"""Requests that put other goals into first observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentrl_envs import protocol
from agentrl_envs.client.servers import Member
from agentrl_envs.errors import ContractError, TaskError


async def relabel(member: Member, *, openings: tuple[protocol.Relabel, ...]) -> tuple[str, ...]:
    """The first observations with their new goals, from one server. Raises `ContractError` if it
    answers with another number of texts."""
    request = protocol.RelabelRequest(openings=openings)
    response = await member.server.post(
        "/v1/relabel", request, protocol.RelabelResponse, retry=False
    )
    if len(response.texts) != len(openings):
        raise ContractError(
            f"{member.server.url}: POST /v1/relabel: the response has {len(response.texts)} texts "
            f"for {len(openings)} openings"
        )
    return response.texts


def relabel_batches(
    openings: Sequence[tuple[str, str]],
) -> Iterator[tuple[protocol.Relabel, ...]]:
    """The openings, divided so that each batch fits into one request. Raises `TaskError` for one
    that is too long."""
    batch: list[protocol.Relabel] = []
    characters = 0
    for observation, goal in openings:
        length = len(observation) + len(goal)
        full = len(batch) == protocol.MAX_RELABELS or characters + length > protocol.MAX_BATCH_CHARS
        if batch and full:
            yield tuple(batch)
            batch, characters = [], 0
        if len(observation) > protocol.MAX_OBSERVATION_CHARS or len(goal) > protocol.MAX_GOAL_CHARS:
            raise TaskError(f"relabel: {goal[:80]!r} or its observation is too long to be sent")
        batch.append(protocol.Relabel(observation=observation, goal=goal))
        characters += length
    if batch:
        yield tuple(batch)
