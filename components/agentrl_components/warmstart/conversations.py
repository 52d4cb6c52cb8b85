"""Conversations for supervised fine-tuning, from a JSONL file with one conversation per line.

    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}

AgentGym's format, `{"conversations": [{"from": "human" | "gpt", "value": "..."}, ...]}`, is also
accepted. An optional system message comes first and contains the instructions. The other messages
alternate between user and assistant, starting with the user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
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


def _messages(line: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(role, content) pairs of a line in either format."""
    if "messages" in line:
        return [(m["role"], m["content"]) for m in line["messages"]]
    return [(ROLES.get(m["from"], m["from"]), m["value"]) for m in line["conversations"]]


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
    messages: Sequence[tuple[str, str]], dialogue: Dialogue, observation_weight: float
) -> Example:
    """One conversation as a training example. The loss weight is 1 on the assistant's tokens
    including stop tokens, and `observation_weight` on all others.

    Raises `ValueError` if user and assistant do not alternate."""
    instructions = ""
    if messages and messages[0][0] == "system":
        instructions, messages = messages[0][1], messages[1:]
    pairs = [
        (user[1], reply[1])
        for user, reply in zip(messages[::2], messages[1::2], strict=False)
        if (user[0], reply[0]) == ("user", "assistant")
    ]
    if not pairs or len(pairs) != len(messages) // 2:
        raise ValueError("user and assistant must alternate, starting with the user")
    ids: list[int] = []
    weights: list[float] = []
    reply: list[int] = []
    for turn, (observation, action) in enumerate(pairs):
        seen = (
            dialogue.following(reply, observation)
            if turn
            else dialogue.opening(instructions, observation)
        )
        reply = [*dialogue.encode_action(action), dialogue.stop[0]]
        ids += [*seen, *reply]
        weights += [observation_weight] * len(seen) + [1.0] * len(reply)
    return Example(
        ids=np.asarray(ids, dtype=np.int32),
        sampled=np.arange(1, len(ids)),
        allowed=None,
        temperature=1.0,
        columns={"weight": np.asarray(weights[1:], dtype=np.float32)},
    )
