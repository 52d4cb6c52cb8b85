"""Conversations for supervised fine-tuning, from a JSONL file with one conversation per line.

    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}

AgentGym's format, `{"conversations": [{"from": "human" | "gpt", "value": "..."}, ...]}`, is also
accepted. An optional system message comes first and contains the instructions. The other messages
alternate between user and assistant, starting with the user. A reply with `"loss": false`, as
AgentGym marks those that it put there itself, is not imitated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.errors import SpecError
from agentrl_components.spec import RunSpec, Storage
from agentrl_components.storage.open import open_store
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.packing import Example

FIELD = "spec.warmStart.trajectories"
ROLES = {"human": "user", "gpt": "assistant"}


class Message(NamedTuple):
    """A message of a conversation."""

    role: str
    content: str
    imitated: bool
    """Whether the loss covers it, if it is the assistant's."""


def conversations(
    url: str, dialogue: Dialogue, spec: RunSpec, observation_weight: float
) -> list[Example]:
    """All conversations in the file at `url` as training examples.

    Raises `SpecError` with the line numbers of invalid conversations, which includes those longer
    than `model.context`."""
    examples: list[Example] = []
    mistakes: list[str] = []
    for number, line in enumerate(_text(url, spec.storage).splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = conversation_example(_messages(json.loads(line)), dialogue, observation_weight)
            if len(found.ids) > spec.model.context:
                raise ValueError(f"{len(found.ids)} tokens do not fit spec.model.context")
            examples.append(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            mistakes.append(
                f"{FIELD}: line {number}: {error}; for the format see docs/warm-start.md"
            )
    if not examples and not mistakes:
        mistakes.append(f"{FIELD}: {url} contains no conversation; write one per line")
    if mistakes:
        raise SpecError(mistakes)
    return examples


def _text(url: str, storage: Storage) -> str:
    """The content of the file at `url`."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(parts.path).read_text()
        folder, _, name = parts.path.strip("/").rpartition("/")
        address = f"s3://{parts.netloc}/{folder}"
        return open_store(storage.model_copy(update={"url": address}), Path()).get(name).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            [f"{FIELD}: {url} cannot be read: {error}; name a readable file"]
        ) from error


def _messages(line: Mapping[str, Any]) -> list[Message]:
    """The messages of a line in either format."""
    if "messages" in line:
        return [_message(one["role"], one["content"], one) for one in line["messages"]]
    return [
        _message(ROLES.get(one["from"], one["from"]), one["value"], one)
        for one in line["conversations"]
    ]


def _message(role: str, content: str, fields: Mapping[str, Any]) -> Message:
    return Message(role, content, imitated=fields.get("loss") is not False)


def conversation_line(episode: Trajectory, instructions: str = "") -> str:
    """An episode as a line of such a file, with its result. `instructions` are those of the
    episode; without them, imitation would train on other prompts than the policy sees later."""
    messages = [{"role": "system", "content": instructions}] if instructions else []
    messages += [
        {"role": role, "content": content}
        for turn in episode.turns
        for role, content in (("user", turn.observation), ("assistant", turn.action))
    ]
    result = {
        "environment": episode.environment,
        "task": episode.task,
        "iteration": episode.iteration,
        "success": episode.success,
        "score": episode.score,
        "ending": episode.ending.value,
    }
    return json.dumps({"messages": messages} | result)


def conversation_example(
    messages: Sequence[Message], dialogue: Dialogue, observation_weight: float
) -> Example:
    """One conversation as a training example. The loss weight is 1 on the tokens of replies that
    are imitated, including stop tokens, 0 on those of other replies, and `observation_weight` on
    all others.

    Raises `ValueError` if user and assistant do not alternate, or all weights are 0."""
    instructions = ""
    if messages and messages[0].role == "system":
        instructions, messages = messages[0].content, messages[1:]
    pairs = [
        (user.content, answer)
        for user, answer in zip(messages[::2], messages[1::2], strict=False)
        if (user.role, answer.role) == ("user", "assistant")
    ]
    if not pairs or len(pairs) != len(messages) // 2:
        raise ValueError("user and assistant must alternate, starting with the user")
    ids: list[int] = []
    weights: list[float] = []
    reply: list[int] = []
    for turn, (observation, answer) in enumerate(pairs):
        seen = (
            dialogue.following(reply, observation)
            if turn
            else dialogue.opening(instructions, observation)
        )
        reply = [*dialogue.encode_action(answer.content), dialogue.stop[0]]
        ids += [*seen, *reply]
        weights += [observation_weight] * len(seen) + [float(answer.imitated)] * len(reply)
    if not any(weights):
        raise ValueError('every reply has "loss": false; leave the conversation out')
    return Example(
        ids=np.asarray(ids, dtype=np.int32),
        sampled=np.arange(1, len(ids)),
        allowed=None,
        temperature=1.0,
        columns={"weight": np.asarray(weights[1:], dtype=np.float32)},
    )
