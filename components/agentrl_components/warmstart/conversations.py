"""Conversations for supervised fine-tuning, from a JSONL file with one conversation per line.

    {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}, ...]}

AgentGym's format, `{"conversations": [{"from": "human" | "gpt", "value": "..."}, ...]}`, is also
accepted. An optional system message comes first and contains the instructions. The other messages
alternate between user and assistant, starting with the user. A reply with `"loss": false`, as
AgentGym marks those that it put there itself, is not imitated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.errors import SpecError
from agentrl_components.spec import RunSpec, Storage
from agentrl_components.spec.addresses import file_path, s3_location
from agentrl_components.storage.open import open_store
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.packing import Example
from agentrl_envs.chat.thoughts import THOUGHT, THOUGHT_END

FIELD = "spec.warmStart.trajectories"
ROLES = {"human": "user", "gpt": "assistant"}


class Message(NamedTuple):
    """A message of a conversation."""

    role: str
    content: str
    imitated: bool
    """Whether the loss covers it, if it is the assistant's."""


class Conversation(NamedTuple):
    """A line of the file."""

    line: int
    """Its number, from 1."""
    instructions: str
    turns: Sequence[tuple[str, Message]]
    """What the user said, and the assistant's reply."""


def given_conversations(spec: RunSpec) -> list[Conversation]:
    """All conversations in the file `warmStart.trajectories`; none without it. Needs no tokenizer,
    so a file that cannot be used is refused before the model is fetched.

    Raises `SpecError` with the line numbers of invalid conversations."""
    url = spec.warm_start.trajectories if spec.warm_start else None
    if url is None:
        return []
    found: list[Conversation] = []
    mistakes: list[str] = []
    # `splitlines` would also split at characters that JSON allows in texts, such as U+2028.
    for number, line in enumerate(_text(url, spec.storage).split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_conversation(number, _messages(json.loads(line))))
        except (ValueError, KeyError, TypeError) as error:
            mistakes.append(_mistake(number, error))
    if not found and not mistakes:
        mistakes.append(f"{FIELD}: {url} contains no conversation; write one per line")
    if mistakes:
        raise SpecError(mistakes)
    return found


def conversation_examples(
    conversations: Iterable[Conversation],
    dialogue: Dialogue,
    context: int,
    observation_weight: float,
) -> list[Example]:
    """The conversations as training examples.

    Raises `SpecError` with the line numbers of those that are longer than `context`
    (`model.context`) or have nothing to imitate."""
    examples: list[Example] = []
    mistakes: list[str] = []
    for one in conversations:
        try:
            example = conversation_example(one, dialogue, observation_weight)
            if len(example.ids) > context:
                raise ValueError(f"{len(example.ids)} tokens do not fit spec.model.context")
            examples.append(example)
        except ValueError as error:
            mistakes.append(_mistake(one.line, error))
    if mistakes:
        raise SpecError(mistakes)
    return examples


def _mistake(line: int, error: Exception) -> str:
    return f"{FIELD}: line {line}: {error}; for the format see docs/warm-start.md"


def _text(url: str, storage: Storage) -> str:
    """The content of the file at `url`."""
    try:
        if url.startswith("file://"):
            return file_path(url).read_text("utf-8")
        bucket, key = s3_location(url)
        folder, _, name = key.rpartition("/")
        address = f"s3://{bucket}/{folder}"
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


def _message(role: str, content: object, fields: Mapping[str, Any]) -> Message:
    if not isinstance(content, str):
        raise ValueError(f"a message of {role} is {json.dumps(content)}, which is no text")
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


def _conversation(line: int, messages: Sequence[Message]) -> Conversation:
    """The messages of a line as turns. Raises `ValueError` if user and assistant do not
    alternate."""
    instructions = ""
    if messages and messages[0].role == "system":
        instructions, messages = messages[0].content, messages[1:]
    turns = [
        (user.content, answer)
        for user, answer in zip(messages[::2], messages[1::2], strict=False)
        if (user.role, answer.role) == ("user", "assistant")
    ]
    if not turns or len(turns) != len(messages) // 2:
        raise ValueError("user and assistant must alternate, starting with the user")
    return Conversation(line, instructions, turns)


def conversation_example(
    conversation: Conversation, dialogue: Dialogue, observation_weight: float
) -> Example:
    """One conversation as a training example. The loss weight is 1 on the tokens of replies that
    are imitated, including stop tokens, 0 on those of other replies, and `observation_weight` on
    all others.

    Raises `ValueError` if all weights are 0, or if a reply that is imitated would end before its
    last token when the policy samples it, or begins or lacks thoughts where the chat template
    always begins them."""
    ids: list[int] = []
    weights: list[float] = []
    reply: list[int] = []
    stops = frozenset(dialogue.stop)
    for turn, (observation, answer) in enumerate(conversation.turns):
        seen = (
            dialogue.following(reply, observation)
            if turn
            else dialogue.opening(conversation.instructions, observation)
        )
        spoken = dialogue.encode_action(answer.content)
        if answer.imitated and not stops.isdisjoint(spoken):
            raise ValueError(
                f"reply {turn + 1} has a token that ends a reply; with model.template react a "
                "reply is one line: put each on one line, or set model.template: chat"
            )
        if answer.imitated and dialogue.thinks:
            _check_thoughts(answer.content, turn)
        reply = [*spoken, dialogue.stop[0]]
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


def _check_thoughts(content: str, turn: int) -> None:
    """Raises `ValueError` for a reply whose action would be part of its thoughts, or that begins
    them a second time."""
    if THOUGHT_END not in content:
        raise ValueError(
            f"reply {turn + 1} has no {THOUGHT_END}: the chat template always asks for thoughts, "
            "so that all of it would be thoughts, and its action empty; write thoughts before the "
            'action, or mark the reply with "loss": false'
        )
    if content.lstrip().startswith(THOUGHT):
        raise ValueError(
            f"reply {turn + 1} begins with {THOUGHT}, which the chat template writes before each "
            "reply; leave it out"
        )
