"""Questions from files in the published forms; the files here are made by the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrl_envs.environments.search import SearchOptions, SearchTasks
from agentrl_envs.environments.search.datasets import read_tasks
from agentrl_envs.environments.search.options import QuestionFile
from agentrl_envs.errors import OptionError, TaskError

HOTPOT = [
    {
        "_id": "5a7",
        "question": "Who wrote the book that the film is based on?",
        "answer": "Mary Shelley",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Frankenstein", 0]],
        "context": [["Frankenstein", ["..."]]],
    }
]

PUBLISHED = {
    "nq": '{"question": "who got the first nobel prize in physics", "answer": ["Röntgen"]}\n',
    "triviaqa": json.dumps(
        {
            "Data": [
                {
                    "QuestionId": "tc_1",
                    "Question": "Which city hosts the Louvre?",
                    "Answer": {"Value": "Paris", "Aliases": ["Paris, France", "Paris"]},
                }
            ]
        }
    ),
    "popqa": (
        "id\tsubj\tprop\tobj\tquestion\tpossible_answers\n"
        '1\tA\toccupation\tB\tWhat is A\'s occupation?\t"[""politician"", ""political leader""]"\n'
    ),
    "hotpotqa": json.dumps(HOTPOT),
    "2wikimultihopqa": json.dumps([{**HOTPOT[0], "evidences": [], "answer": "yes"}]),
    "musique": (
        '{"id": "2hop__1", "question": "Unanswerable?", "answer": "x", "answerable": false}\n'
        '{"id": "2hop__2", "question": "When was it built?", "answer": "1901",'
        ' "answer_aliases": ["in 1901"], "answerable": true}\n'
    ),
    "bamboogle": "Question,Answer\nWho was president when it was invented?,Abraham Lincoln\n",
}

ASKED = {
    "nq": ("who got the first nobel prize in physics?", ["Röntgen"]),
    "triviaqa": ("Which city hosts the Louvre?", ["Paris", "Paris, France"]),
    "popqa": ("What is A's occupation?", ["politician", "political leader"]),
    "hotpotqa": ("Who wrote the book that the film is based on?", ["Mary Shelley"]),
    "2wikimultihopqa": ("Who wrote the book that the film is based on?", ["yes"]),
    "musique": ("When was it built?", ["1901", "in 1901"]),
    "bamboogle": ("Who was president when it was invented?", ["Abraham Lincoln"]),
}

FLASHRAG = '{{"id": "{0}", "question": "question {0}", "golden_answers": ["{0}"]}}\n'


def file_of(folder: Path, name: str, text: str, **given: Any) -> QuestionFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return QuestionFile.model_validate(
        {"dataset": "nq", "split": "train", **given, "path": str(path)}
    )


def flashrag(folder: Path, name: str, numbers: range, **given: Any) -> QuestionFile:
    return file_of(folder, name, "".join(FLASHRAG.format(n) for n in numbers), **given)


@pytest.fixture
def other(tmp_path: Path) -> QuestionFile:
    """A held-out file, as each split needs questions."""
    return flashrag(tmp_path, "other.jsonl", range(900, 902), split="heldout", dataset="bamboogle")


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_each_data_set_is_read_in_its_published_form(
    dataset: str, tmp_path: Path, other: QuestionFile
):
    given = file_of(tmp_path, "file", PUBLISHED[dataset], dataset=dataset)
    (task,) = read_tasks([given, other], [])["train"]
    question, answers = ASKED[dataset]
    assert (task.payload["question"], task.payload["answers"]) == (question, answers)
    assert task.category == dataset


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_each_data_set_is_read_in_flashrags_form(dataset: str, tmp_path: Path, other: QuestionFile):
    tasks = read_tasks([flashrag(tmp_path, "file", range(2), dataset=dataset), other], [])
    assert [task.payload["question"] for task in tasks["train"]] == ["question 0?", "question 1?"]


def test_a_question_that_is_held_out_is_no_training_task(tmp_path: Path):
    train = flashrag(tmp_path, "train", range(4))
    heldout = flashrag(tmp_path, "heldout", range(2, 6), split="heldout")
    tasks = read_tasks([train, heldout], [])
    assert [task.payload["answers"] for task in tasks["train"]] == [["0"], ["1"]]
    assert len(tasks["heldout"]) == 4
    assert not {t.id for t in tasks["train"]} & {t.id for t in tasks["heldout"]}


def test_questions_of_several_files_are_dealt_in_about_the_shares_of_the_files(tmp_path: Path):
    small = flashrag(tmp_path, "small", range(2), split="heldout", dataset="bamboogle")
    large = flashrag(tmp_path, "large", range(10, 16), split="heldout", dataset="musique")
    tasks = read_tasks([small, large], [])["heldout"]
    answers = [answer for task in tasks for answer in task.payload["answers"]]
    assert answers == ["10", "0", "11", "12", "13", "1", "14", "15"]


def test_agentgyms_items_are_rows_of_the_files(tmp_path: Path):
    heldout = flashrag(tmp_path, "nq", range(5), split="heldout")
    train = flashrag(tmp_path, "hotpot", range(10, 13), dataset="hotpotqa")
    tasks = read_tasks([heldout, train], [4, 0, 130881 + 2])
    assert [task.payload["answers"] for task in tasks["heldout"]] == [["4"], ["0"]]
    assert [task.payload["answers"] for task in tasks["train"]] == [["12"]]


def test_an_item_that_the_files_lack_is_named(tmp_path: Path, other: QuestionFile):
    with pytest.raises(OptionError, match=r"items: 7 is row 7 of nq \(heldout\).*give that file"):
        read_tasks([flashrag(tmp_path, "nq", range(5), split="heldout"), other], [7])


def test_a_file_in_another_form_is_named(tmp_path: Path, other: QuestionFile):
    wrong = file_of(tmp_path, "wrong.json", '{"rows": []}', dataset="triviaqa")
    with pytest.raises(OptionError, match=r"wrong.json is not in the form of triviaqa"):
        read_tasks([wrong, other], [])


def test_a_file_that_is_missing_is_named(tmp_path: Path, other: QuestionFile):
    missing = QuestionFile(dataset="nq", path=str(tmp_path / "none"), split="train")
    with pytest.raises(OptionError, match="none: No such file or directory; give a file of nq"):
        read_tasks([missing, other], [])


def test_some_questions_must_be_held_out(tmp_path: Path):
    with pytest.raises(OptionError, match="none is of split heldout, which evaluations use"):
        read_tasks([flashrag(tmp_path, "train", range(2))], [])


def test_questions_for_evaluation_alone_need_no_training_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"title": "One", "text": "question 0 has the answer 0"}\n')
    heldout = flashrag(tmp_path, "heldout", range(2), split="heldout")
    index = str(tmp_path / "index")
    tasks = SearchTasks(SearchOptions(corpus=(str(corpus),), index=index, questions=(heldout,)))
    assert (tasks.size("train"), tasks.size("heldout")) == (0, 2)
    session = tasks.environment()
    assert session.reset(tasks.task("heldout", 0)).text == "Question: question 0?"
    assert "Doc 1(Title: One)" in session.step("<search>question 0</search>").observation.text
    assert session.step("<answer>0</answer>").success
    with pytest.raises(TaskError, match="no question is of split train; give such a file"):
        tasks.task("train", 0)
