"""Given play, for supervised fine-tuning: one conversation a line of a JSONL file.

    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}

Also AgentGym's form, `{"conversations": [{"from": "human" | "gpt", "value": "..."}, ...]}`. A
leading system message, if any, is the instructions; the rest alternates, starting with the user.
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
    """Every conversation as an example. Raises `SpecError` naming the lines that cannot be used; a
    conversation longer than the context is one of them."""
    examples: list[Example] = []
    mistakes: list[str] = []
    for number, line in enumerate(read(url, spec.storage).splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = example(messages(json.loads(line)), dialogue, observation_weight)
            if len(found.ids) > spec.model.context:
                raise ValueError(f"{len(found.ids)} tokens do not fit spec.model.context")
            examples.append(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            mistakes.append(f"{FIELD}: line {number}: {error}; see docs/warm-start.md for the form")
    if not examples and not mistakes:
        mistakes.append(f"{FIELD}: {url} holds no conversation; give one a line")
    if mistakes:
        raise SpecError(mistakes)
    return examples


def read(url: str, storage: Storage) -> str:
    """The file's text."""
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(parts.path).read_text()
        folder, _, name = parts.path.strip("/").rpartition("/")
        place = f"s3://{parts.netloc}/{folder}"
        return open_store(storage.model_copy(update={"url": place}), Path()).get(name).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            [f"{FIELD}: {url} cannot be read: {error}; give a readable file"]
        ) from error


def messages(line: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(role, content) pairs of either form."""
    if "messages" in line:
        return [(m["role"], m["content"]) for m in line["messages"]]
    return [(ROLES.get(m["from"], m["from"]), m["value"]) for m in line["conversations"]]


def line(episode: Trajectory, instructions: str = "") -> str:
    """A played episode as such a line, with what became of it. `instructions` are those it was
    played with: imitated without them, a policy would begin otherwise than it plays."""
    told = [{"role": "system", "content": instructions}] if instructions else []
    told += [
        {"role": role, "content": content}
        for turn in episode.turns
        for role, content in (("user", turn.observation), ("assistant", turn.action))
    ]
    became = {
        "environment": episode.environment,
        "task": episode.task,
        "iteration": episode.iteration,
        "success": episode.success,
        "score": episode.score,
        "ending": episode.ending.value,
    }
    return json.dumps({"messages": told} | became)


def example(
    told: Sequence[tuple[str, str]], dialogue: Dialogue, observation_weight: float
) -> Example:
    """One conversation: the assistant's tokens, stop tokens included, at weight 1."""
    instructions = ""
    if told and told[0][0] == "system":
        instructions, told = told[0][1], told[1:]
    pairs = [
        (user[1], reply[1])
        for user, reply in zip(told[::2], told[1::2], strict=False)
        if (user[0], reply[0]) == ("user", "assistant")
    ]
    if not pairs or len(pairs) != len(told) // 2:
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
