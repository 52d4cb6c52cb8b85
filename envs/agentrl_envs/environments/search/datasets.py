"""Questions from files, in the forms in which their data sets are published.

| data set | file | question and answers |
|---|---|---|
| nq | JSON Lines (NQ-open) | `question`, `answer` (a list) |
| triviaqa | JSON with `Data` | `Question`, `Answer.Value` and `Answer.Aliases` |
| popqa | tab-separated | `question`, `possible_answers` (a list in JSON) |
| hotpotqa, 2wikimultihopqa | a JSON list | `question`, `answer` |
| musique | JSON Lines | `question`, `answer`, `answer_aliases`; unanswerable ones are left out |
| bamboogle | comma-separated | `Question`, `Answer` |
| any | JSON Lines of FlashRAG | `question`, `golden_answers` |
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentrl_envs.env import Split, Task
from agentrl_envs.environments.search.agentgym_ids import row_of
from agentrl_envs.environments.search.options import Dataset, QuestionFile
from agentrl_envs.environments.search.payload import Question
from agentrl_envs.environments.search.scoring import normalise
from agentrl_envs.errors import OptionError
from agentrl_envs.task_list import interleaved

Rows = Iterator[tuple[str, Sequence[str]] | None]
"""Question and accepted answers of each row; None for a row that is left out."""


def read_tasks(files: Sequence[QuestionFile], items: Sequence[int]) -> dict[Split, list[Task]]:
    """The tasks of the files by split, without repeats. A question that is held out is no training
    task. `items`: AgentGym's ids of the rows to take, in this order; empty for all, in an order in
    which the first tasks of a split are of all its files. Raises `OptionError` for a file that
    cannot be read, and if no question is held out."""
    rows = {(file.split, file.dataset): _read(file) for file in files}
    if items:
        chosen = _chosen(rows, items)
    else:
        chosen = interleaved(
            [[(split, row) for row in found] for (split, _), found in rows.items()]
        )
    taken: dict[Split, dict[str, Task]] = {"heldout": {}, "train": {}}
    for split in ("heldout", "train"):
        for of, row in chosen:
            if of != split or row is None:
                continue
            key = normalise(row.question)
            if key not in taken["heldout"]:
                taken[of].setdefault(key, row.task(of))
    if not taken["heldout"]:
        raise OptionError(
            "search.options.questions: none is of split heldout, which evaluations use; give a file"
        )
    return {split: list(found.values()) for split, found in taken.items()}


def _chosen(
    rows: Mapping[tuple[Split, Dataset], Sequence[Question | None]], items: Sequence[int]
) -> list[tuple[Split, Question | None]]:
    chosen: list[tuple[Split, Question | None]] = []
    for item in items:
        try:
            split, dataset, row = row_of(item)
            chosen.append((split, rows[split, dataset][row]))
        except ValueError as error:
            raise OptionError(f"search.options.items: {error}; use one of these") from None
        except LookupError:
            raise OptionError(
                f"search.options.items: {item} is row {row} of {dataset} ({split}), which the files"
                " of search.options.questions do not have; give that file in full"
            ) from None
    return chosen


def _read(file: QuestionFile) -> list[Question | None]:
    """The questions of a file, a place for each row."""
    path = Path(file.path).expanduser()
    try:
        with path.open(encoding="utf-8", newline="") as opened:
            head = opened.readline()
            opened.seek(0)
            read = _flashrag if '"golden_answers"' in head else _FORMS[file.dataset]
            return [row and _question(row, file.dataset) for row in read(opened)]
    except OSError as error:
        raise OptionError(
            f"search.options.questions: {path}: {error.strerror}; give a file of {file.dataset}"
        ) from None
    except (LookupError, TypeError, ValueError) as error:
        raise OptionError(
            f"search.options.questions: {path} is not in the form of {file.dataset} "
            f"({type(error).__name__}: {str(error)[:80]}); see docs/environments/search.md"
        ) from None


def _question(row: tuple[str, Sequence[str]], dataset: Dataset) -> Question:
    """A question ends with a question mark, as in upstream's files."""
    text = row[0].strip()
    text = text if text.endswith("?") else f"{text}?"
    return Question(question=text, answers=tuple(dict.fromkeys(row[1])), category=dataset)


def _lines(opened: Iterable[str]) -> Iterator[Any]:
    return (json.loads(line) for line in opened if line.strip())


def _flashrag(opened: Iterable[str]) -> Rows:
    return ((row["question"], row["golden_answers"]) for row in _lines(opened))


def _nq(opened: Iterable[str]) -> Rows:
    return ((row["question"], row["answer"]) for row in _lines(opened))


def _triviaqa(opened: Iterable[str]) -> Rows:
    rows = json.loads("".join(opened))["Data"]
    return ((r["Question"], (r["Answer"]["Value"], *r["Answer"].get("Aliases", ()))) for r in rows)


def _popqa(opened: Iterable[str]) -> Rows:
    rows = csv.DictReader(opened, delimiter="\t")
    return ((row["question"], json.loads(row["possible_answers"])) for row in rows)


def _hotpotqa(opened: Iterable[str]) -> Rows:
    return ((row["question"], (row["answer"],)) for row in json.loads("".join(opened)))


def _musique(opened: Iterable[str]) -> Rows:
    return (
        (row["question"], (row["answer"], *row.get("answer_aliases", ())))
        if row.get("answerable", True)
        else None
        for row in _lines(opened)
    )


def _bamboogle(opened: Iterable[str]) -> Rows:
    return ((row["Question"], (row["Answer"],)) for row in csv.DictReader(opened))


_FORMS: dict[Dataset, Callable[[Iterable[str]], Rows]] = {
    "nq": _nq,
    "triviaqa": _triviaqa,
    "popqa": _popqa,
    "hotpotqa": _hotpotqa,
    "2wikimultihopqa": _hotpotqa,
    "musique": _musique,
    "bamboogle": _bamboogle,
}
