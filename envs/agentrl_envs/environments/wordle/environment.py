"""Task set and session of Wordle. The list of words (`words.txt`) is our own."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.react_reply import action_of
from agentrl_envs.errors import TaskError
from agentrl_envs.task_list import TaskList

ATTEMPTS, LETTERS = 6, 5
START, INVALID, OVER = "Let's start Wordle!", "invalid word", "The game is over."

INSTRUCTIONS = """\
Guess a hidden word of 5 letters in at most 6 attempts. Write your guess with spaces between the \
letters, for example "s t o n e". The answer has a letter for each of yours: "g" if it is right, \
"y" if it is in the word but in another place, "b" if it is not in the word. A guess that is not \
in the list below is an "invalid word" and does not count.

The words are:
{words}

Answer in this form:
Thought:
<your thought>

Action:
<your guess>"""


class WordleOptions(BaseModel):
    """Options of the `wordle` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    words: Annotated[int, Field(ge=20, le=10_000)] = 10_000
    """Number of words of the list that are used, spread over it; all if there are fewer."""
    text: Literal["agentgym", "terse"] = "agentgym"
    """agentgym: with instructions and ReAct replies; terse: without, and guesses are listed."""
    turn_limit: Annotated[int, Field(ge=ATTEMPTS, le=10_000)] = 100
    """Replies, valid or not, after which the episode is truncated."""


class WordleTasks(TaskList):
    """A task for each hidden word."""

    name = "wordle"

    def __init__(self, options: WordleOptions | None = None) -> None:
        self.options = options or WordleOptions()
        everything = word_list()
        count = min(self.options.words, len(everything))
        self.words = tuple(everything[i * len(everything) // count] for i in range(count))
        super().__init__({"word": word} for word in self.words)

    def instructions(self) -> str:
        terse = self.options.text == "terse"
        return "" if terse else INSTRUCTIONS.format(words=" ".join(self.words))

    def environment(self) -> WordleSession:
        return WordleSession(self)

    def vocabulary(self) -> tuple[str, ...] | None:
        if self.options.text == "agentgym":
            return None
        fixed = f"{START} {INVALID} {OVER}".split()
        return tuple(dict.fromkeys((*fixed, *"abcdefghijklmnopqrstuvwxyz")))


class WordleSession:
    """One session. Reward 1 for the hidden word, and no other."""

    def __init__(self, tasks: WordleTasks) -> None:
        self._tasks = tasks
        self._word = ""

    def reset(self, task: Task) -> Observation:
        """Hide a word. Raises `TaskError` for a task of another task set."""
        self._word = str(self._tasks.content(task)["word"])
        self._guesses: list[str] = []
        self._turns = 0
        return self._seen(START)

    def step(self, action: str) -> Step:
        """Guess. Raises `TaskError` before the first reset."""
        if not self._word:
            raise TaskError("wordle: no word is hidden; call reset with a task first")
        guess = action_of(action).replace(" ", "")
        if self._ended:
            return self._step(OVER, wellformed=False)
        self._turns += 1
        if guess not in self._tasks.words:
            return self._step(INVALID, wellformed=False)
        self._guesses.append(guess)
        return self._step(feedback(guess, self._word), reward=float(self._solved))

    def close(self) -> None:
        """Drop the word."""
        self._word = ""

    @property
    def _solved(self) -> bool:
        return self._word in self._guesses

    @property
    def _ended(self) -> bool:
        return (
            self._solved
            or len(self._guesses) == ATTEMPTS
            or self._turns >= self._tasks.options.turn_limit
        )

    def _step(self, text: str, *, reward: float = 0.0, wellformed: bool = True) -> Step:
        terminated = self._solved or len(self._guesses) == ATTEMPTS
        hidden = f"{self._word} {self._guesses} {self._ended}"
        return Step(
            observation=self._seen(text),
            reward=reward,
            terminated=terminated,
            truncated=self._ended and not terminated,
            wellformed=wellformed,
            success=self._solved,
            raw_score=float(self._solved) - 1,  # LMRL-Gym's reward of the last guess: 0 or -1
            state=hashlib.sha256(hidden.encode()).hexdigest()[:16],
        )

    def _seen(self, text: str) -> Observation:
        if self._tasks.options.text == "agentgym":
            return Observation(text=text)
        words = () if self._ended else self._tasks.words
        left = tuple(" ".join(word) for word in words if word not in self._guesses)
        return Observation(text=text, admissible=left)


def feedback(guess: str, word: str) -> str:
    """`g`, `y` or `b` for each letter of the guess. A letter is `y` at most as often as it is left
    in the word, from the left."""
    exact = [a == b for a, b in zip(guess, word, strict=True)]
    left = Counter(letter for letter, right in zip(word, exact, strict=True) if not right)
    marks = []
    for letter, right in zip(guess, exact, strict=True):
        elsewhere = not right and left[letter] > 0
        left[letter] -= elsewhere
        marks.append("g" if right else "y" if elsewhere else "b")
    return " ".join(marks)


@cache
def word_list() -> tuple[str, ...]:
    """Common English words of five letters, in alphabetical order."""
    return tuple((files(__package__) / "words.txt").read_text(encoding="utf-8").split())
