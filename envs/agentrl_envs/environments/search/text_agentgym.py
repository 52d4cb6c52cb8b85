"""AgentGym's form of deep search: blocks in tags, for pretrained models.

    <think>I need the rival first.</think>
    <search>rival of Mavelin</search>

A reply holds one `<search>` or one `<answer>` block; what is inside `<think>` is not read. With
`compat: agentgym` the first block decides what is done, and the last `<answer>` is scored, as
upstream does; its observations after the first one are upstream's, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentrl_envs.env import opening_exchange
from agentrl_envs.environments.search.payload import Question
from agentrl_envs.environments.search.retrieval.retriever import Document
from agentrl_envs.environments.search.text_form import Answer, Command, Progress, Refused, Search
from agentrl_envs.errors import TaskError

_OPENING = re.compile(r"<(search|answer)>")

INSTRUCTIONS = """\
Answer a question with the help of a search engine. Think first, inside <think> and </think>. Then \
do one of two things, and end your reply there:
- To look something up, write a query: <search>your query</search>. The documents that fit it best \
are returned to you between <information> and </information>. Do not write <information> yourself.
- When you know the answer, write it alone and without explanations: <answer>Beijing</answer>.
A question may need several searches, one after another: search for what the last one found."""

INVALID = (
    "Your previous action is invalid. If you want to search, you should put the query between "
    "<search> and </search>. If you want to give the final answer, you should put the answer "
    "between <answer> and </answer>. Please try again."
)
SEVERAL = (
    "Your previous action is invalid: only one <search> or <answer> is allowed per reply. "
    "Please try again."
)
CORRECT = "Congratulations! You have answered the question correctly."
WRONG = "Sorry, your answer is incorrect."
TRY_AGAIN = " Please try again."
NOTHING = "<information>No document was found.</information>"


class AgentGymForm:
    """The `agentgym` text form. `strict`: upstream's parsing, see `SearchOptions.compat`."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def instructions(self) -> str:
        return opening_exchange(INSTRUCTIONS, "Ok.") if self._strict else INSTRUCTIONS

    def vocabulary(self) -> None:
        return None

    def opening(self, question: Question) -> str:
        return f"Question: {question.question}"

    def admissible(self, progress: Progress) -> None:
        return None

    def parse(self, reply: str, progress: Progress) -> Command:
        blocks = blocks_of(reply if self._strict else without_thoughts(reply))
        if not blocks:
            return Refused(INVALID)
        if len(blocks) > 1 and not self._strict:
            return Refused(SEVERAL)
        kind, content = blocks[0][0], blocks[0][1].strip()
        if kind == "answer":
            last = [text for name, text in blocks if name == "answer"][-1]
            return Answer(last.strip())
        if not content and not self._strict:
            return Refused(INVALID)
        return Search(content)

    def results(self, documents: Sequence[Document]) -> str:
        if not documents and not self._strict:
            return NOTHING
        shown = "\n".join(
            f"Doc {number}(Title: {each.title}) {each.text}"
            for number, each in enumerate(documents, 1)
        )
        return f"<information>{shown}</information>"

    def verdict(self, correct: bool, guesses_on: bool) -> str:
        return CORRECT if correct else WRONG + TRY_AGAIN * guesses_on

    def achieved(self, progress: Progress, answer: str) -> tuple[str, ...]:
        return ()

    def relabel(self, opening: str, goal: str) -> str:
        raise TaskError("search: only the terse form can be relabeled; set options.text to terse")


def blocks_of(reply: str) -> list[tuple[str, str]]:
    """(name, content) of the `<search>` and `<answer>` blocks, outside each other and in order.

    The time is linear in the length, also where nothing is closed, for a model wrote the text."""
    blocks: list[tuple[str, str]] = []
    unclosed: set[str] = set()
    end = 0
    for opening in _OPENING.finditer(reply):
        name = opening[1]
        if opening.start() < end or name in unclosed:
            continue
        closing = reply.find(f"</{name}>", opening.end())
        if closing < 0:
            unclosed.add(name)
            continue
        blocks.append((name, reply[opening.end() : closing]))
        end = closing + len(f"</{name}>")
    return blocks


def without_thoughts(reply: str) -> str:
    """`reply` without its `<think>` blocks, in linear time."""
    kept: list[str] = []
    at = 0
    while (start := reply.find("<think>", at)) >= 0:
        end = reply.find("</think>", start)
        if end < 0:
            break
        kept.append(reply[at:start])
        at = end + len("</think>")
    return "".join(kept) + reply[at:]
