"""One session of deep search."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.search.options import SearchOptions
from agentrl_envs.environments.search.payload import task_question
from agentrl_envs.environments.search.retrieval.retriever import QueryError, Retriever
from agentrl_envs.environments.search.scoring import exact_match, f1
from agentrl_envs.environments.search.text_form import (
    Answer,
    Command,
    Progress,
    Refused,
    Search,
    TextForm,
)
from agentrl_envs.errors import TaskError

OVER = "The episode has ended."
REFUSED = "The search engine refused this query. Search for something else."


class SearchSession:
    """Asks one question at a time. An answer ends the episode, unless `compat` is agentgym and it
    is wrong. Reward: exact match or F1 of the answer (`options.reward`); the raw score is F1.

    A session is lost, not failed, if the retriever raises `SessionError`."""

    def __init__(
        self, options: SearchOptions, form: TextForm, retrievers: Mapping[str, Retriever]
    ) -> None:
        """`retrievers`: by the key of a generated world; of any other corpus, by an empty key."""
        self._options = options
        self._form = form
        self._retrievers = retrievers
        self._progress: Progress | None = None

    def reset(self, task: Task) -> Observation:
        """Ask the question of `task`. Raises `TaskError` for one of another task set."""
        progress = Progress(question=task_question(task, self._retrievers))
        self._progress = progress
        return self._observation(self._form.opening(progress.question), progress)

    def step(self, action: str) -> Step:
        """Search or answer. Raises `TaskError` before the first reset."""
        progress = self._progress
        if progress is None:
            raise TaskError("search: no question is set up; call reset with a task first")
        if progress.over or progress.turns >= self._options.turn_limit:
            return self._step(progress, OVER, wellformed=False)
        command = self._form.parse(action, progress)
        return self._carry_out(command, progress)

    def close(self) -> None:
        """Drop the question."""
        self._progress = None

    def _carry_out(self, command: Command, progress: Progress) -> Step:
        match command:
            case Search(query):
                retriever = self._retrievers[progress.question.world]
                try:
                    documents = retriever.search(query, self._options.top_k)
                except QueryError:
                    return self._carry_out(Refused(REFUSED), progress)
                progress.turns += 1
                progress.searches.append(query)
                progress.found.update(dict.fromkeys(documents))
                return self._step(progress, self._form.results(documents))
            case Answer(text):
                progress.turns += 1
                return self._judge(text, progress)
            case Refused(message):
                progress.turns += 1
                return self._step(progress, message, wellformed=False)

    def _judge(self, text: str, progress: Progress) -> Step:
        accepted = progress.question.answers
        matched, overlap = exact_match(text, accepted), f1(text, accepted)
        score = matched if self._options.reward == "em" else overlap
        guesses_on = self._options.compat == "agentgym" and score < 1
        progress.solved = score == 1
        progress.over = not guesses_on
        return self._step(
            progress,
            self._form.verdict(progress.solved, guesses_on),
            reward=0.0 if guesses_on else score,
            raw_score=overlap,
            achieved=self._form.achieved(progress, text),
        )

    def _step(
        self,
        progress: Progress,
        text: str,
        *,
        reward: float = 0.0,
        raw_score: float = 0.0,
        wellformed: bool = True,
        achieved: tuple[str, ...] = (),
    ) -> Step:
        return Step(
            observation=self._observation(text, progress),
            reward=reward,
            terminated=progress.over,
            truncated=not progress.over and progress.turns >= self._options.turn_limit,
            wellformed=wellformed,
            success=progress.solved,
            raw_score=raw_score,
            state=_state(progress),
            achieved=achieved,
        )

    def _observation(self, text: str, progress: Progress) -> Observation:
        return Observation(text=text, admissible=self._form.admissible(progress))


def _state(progress: Progress) -> str:
    """Hash of what is known: the question, the searches made, the documents found."""
    known = (
        progress.question.question,
        sorted(progress.searches),
        [each.text for each in progress.found],
        progress.over,
    )
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]
