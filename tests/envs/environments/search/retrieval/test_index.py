"""The index on disk: built once, memory-mapped, and refused where it does not fit its corpus."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from agentrl_envs.environments.cache_folder import cache_folder
from agentrl_envs.environments.search.retrieval.corpus import Corpus
from agentrl_envs.environments.search.retrieval.index import open_index
from agentrl_envs.environments.search.retrieval.retriever import Document
from agentrl_envs.errors import OptionError, SessionError

PARIS = Document(title='"Paris"', text="Paris is the capital of France.")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    path = tmp_path / "wiki.jsonl"
    rows = [
        {"id": "0", "contents": '"Rome"\nRome is the capital of Italy.'},
        {"id": "1", "contents": f"{PARIS.title}\n{PARIS.text}"},
    ]
    path.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_a_search_reads_the_documents_from_the_corpus(wiki: Path):
    retriever = open_index(Corpus.of([str(wiki)]), "")
    assert retriever.search("capital of France", 1) == (PARIS,)


def test_files_are_searched_together_and_may_be_file_urls(wiki: Path, tmp_path: Path):
    other = tmp_path / "other é.jsonl"
    other.write_text('{"title": "Bern", "text": "Bern is the capital of Switzerland."}')
    corpus = Corpus.of([str(wiki), other.as_uri()])
    assert open_index(corpus, "").search("Switzerland", 3)[0].title == "Bern"


def test_the_scores_are_mapped_from_the_file(wiki: Path):
    index = open_index(Corpus.of([str(wiki)]), "")._index
    assert isinstance(index.scores["data"], np.memmap)


def test_an_index_is_built_once_by_whoever_comes_first(wiki: Path):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: open_index(Corpus.of([str(wiki)]), ""), range(8)))
    assert all(each.search("France", 1) == (PARIS,) for each in found)
    (place,) = cache_folder("search").glob("bm25-*")
    built = (place / "index.json").stat()
    open_index(Corpus.of([str(wiki)]), "")
    assert (place / "index.json").stat().st_ino == built.st_ino
    assert not list(cache_folder("search").glob(".bm25-*-*"))


def test_a_corpus_is_digested_once_by_threads_that_start_together(wiki: Path):
    digests: list[str] = []
    together = Barrier(8)

    class Counted(Corpus):
        def digest(self) -> str:
            digests.append(super().digest())
            return digests[-1]

    def search() -> tuple[Document, ...]:
        together.wait()
        return open_index(Counted.of([str(wiki)]), "").search("France", 1)

    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(search) for _ in range(8)]
    assert all(each.result() == (PARIS,) for each in found)
    assert len(digests) == 1


def test_another_process_uses_the_same_index(wiki: Path):
    open_index(Corpus.of([str(wiki)]), "")
    code = (
        "import sys; from agentrl_envs.environments.search.retrieval.corpus import Corpus\n"
        "from agentrl_envs.environments.search.retrieval.index import open_index\n"
        "print(open_index(Corpus.of([sys.argv[1]]), '').search('France', 1)[0].text)"
    )
    command = [sys.executable, "-c", code, str(wiki)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == f"{PARIS.text}\n"
    assert len(list(cache_folder("search").glob("bm25-*"))) == 1


def test_the_files_of_a_killed_build_are_removed_by_the_next_one(wiki: Path):
    code = (
        "import os, signal, sys\n"
        "from agentrl_envs.environments.search.retrieval.corpus import Corpus\n"
        "from agentrl_envs.environments.search.retrieval.index import open_index\n"
        "class Killed(Corpus):\n"
        "    def documents(self):\n"
        "        yield from super().documents()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "open_index(Killed.of([sys.argv[1]]), '')"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(wiki)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert open_index(Corpus.of([str(wiki)]), "").search("France", 1) == (PARIS,)
    folders = [path.name for path in cache_folder("search").iterdir() if path.is_dir()]
    assert [name for name in folders if not name.startswith("bm25-")] == []


def test_a_changed_corpus_gets_another_index(wiki: Path):
    open_index(Corpus.of([str(wiki)]), "")
    with wiki.open("a") as file:
        file.write('{"title": "Oslo", "text": "Oslo is the capital of Norway."}\n')
    assert open_index(Corpus.of([str(wiki)]), "").search("Norway", 1)[0].title == "Oslo"
    assert len(list(cache_folder("search").glob("bm25-*"))) == 2


def test_an_index_of_another_corpus_is_refused_with_both_named(wiki: Path, tmp_path: Path):
    place = tmp_path / "index"
    open_index(Corpus.of([str(wiki)]), str(place))
    other = tmp_path / "other.jsonl"
    other.write_text('{"title": "Bern", "text": "Bern is the capital of Switzerland."}')
    with pytest.raises(OptionError) as caught:
        open_index(Corpus.of([str(other)]), str(place))
    message = str(caught.value)
    assert message.startswith(f"search.options.index: {place} was built from {wiki} (")
    assert f"search.options.corpus is {other} (" in message
    assert message.endswith("give the corpus of the index, or another folder for a new index")


def test_a_folder_that_is_no_index_is_refused(wiki: Path, tmp_path: Path):
    with pytest.raises(OptionError, match=r"index: .* is no index; give another folder"):
        open_index(Corpus.of([str(wiki)]), str(tmp_path))


def test_a_damaged_index_is_refused(wiki: Path, tmp_path: Path):
    place = tmp_path / "index"
    open_index(Corpus.of([str(wiki)]), str(place))
    (place / "places.npy").write_bytes(b"")
    with pytest.raises(OptionError, match="remove a damaged index: it is built again"):
        open_index(Corpus.of([str(wiki)]), str(place))


def test_a_corpus_that_changes_while_it_is_used_loses_the_session(wiki: Path):
    retriever = open_index(Corpus.of([str(wiki)]), "")
    wiki.write_text("")
    with pytest.raises(SessionError, match="the corpus was changed while it was in use"):
        retriever.search("France", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json\n", "wiki.jsonl:1: no JSON; use a line a document"),
        ('{"body": "x"}\n', "wiki.jsonl:1: no document; a line has `contents`"),
        ("\n", "corpus: holds no document"),
    ],
)
def test_a_corpus_without_documents_is_refused_at_the_line(wiki: Path, text: str, message: str):
    wiki.write_text(text)
    with pytest.raises(OptionError, match=message):
        open_index(Corpus.of([str(wiki)]), "")
    assert not list(cache_folder("search").glob("bm25-*"))


@pytest.mark.parametrize("name", ["wiki #1?.jsonl", "wiki %231%3F.jsonl"])
def test_the_address_of_a_corpus_keeps_what_follows_a_hash(tmp_path: Path, name: str):
    path = tmp_path / "wiki #1?.jsonl"
    path.touch()
    assert Corpus.of([f"file://{tmp_path}/{name}"]) == Corpus.of([str(path)])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/wiki.jsonl", "/nowhere/wiki.jsonl: no such file; give a JSON Lines file"),
        ("s3://bucket/wiki.jsonl", "s3:// is not read; copy the file into a volume"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_named(name: str, message: str):
    with pytest.raises(OptionError, match=message):
        Corpus.of([name])
