"""The BM25 index of a corpus on disk: built once, memory-mapped, shared by processes.

The folder of an index is named after the hash of the corpus, or chosen by the user. It is built
beside its place, under a lock that the processes of a machine share, and renamed when it is whole,
so that there is a complete index or none.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from agentrl_envs.environments.cache_folder import cache_folder
from agentrl_envs.environments.search.retrieval import bm25
from agentrl_envs.environments.search.retrieval.corpus import Corpus, Line, OpenCorpus
from agentrl_envs.environments.search.retrieval.retriever import Document
from agentrl_envs.errors import OptionError

FORMAT = f"agentrl-bm25-1 k1={bm25.K1} b={bm25.B}"
_MANIFEST, _PLACES = "index.json", "places.npy"


class IndexedDocuments:
    """The documents of an index, read from the corpus."""

    def __init__(self, places_D2: Any, corpus: Corpus) -> None:
        self._places_D2 = places_D2
        self._corpus = OpenCorpus(corpus)

    def __getitem__(self, position: int, /) -> Document:
        file, start = self._places_D2[position]
        return self._corpus.read(Line(int(file), int(start)))


def open_index(corpus: Corpus, folder: str) -> bm25.Bm25Retriever:
    """The retriever over a corpus; builds its index if there is none. `folder`: of the index; empty
    for one in the cache. Raises `OptionError` for an index of another corpus, and for one that
    cannot be read or written."""
    cache = cache_folder("search")
    digest = _digest(corpus, cache)
    place = Path(folder).expanduser() if folder else cache / f"bm25-{digest[:32]}"
    try:
        with _lock(place):
            if not place.exists():
                _build(corpus, digest, place)
        _check(place, corpus, digest)
        index = bm25s.BM25.load(place, mmap=True)
        places_D2 = np.load(place / _PLACES, mmap_mode="r")
    except OptionError:
        raise
    except (EOFError, OSError, ValueError) as error:
        raise OptionError(
            f"search.options.index: {place}: {error}; give a folder that can be written, or remove "
            "a damaged index: it is built again"
        ) from None
    return bm25.Bm25Retriever(index, IndexedDocuments(places_D2, corpus))


def _build(corpus: Corpus, digest: str, place: Path) -> None:
    """Build the index at `place`. This process holds its lock, so the files of an unfinished build
    are those of a process that was killed."""
    scratch = place.with_name(f".{place.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        places: list[tuple[int, int]] = []
        texts: list[str] = []
        for line, document in corpus.documents():
            places.append((line.file, line.start))
            texts.append(f"{document.title} {document.text}")
        if not texts:
            raise OptionError("search.options.corpus: holds no document; give a file with some")
        bm25.build(texts).save(scratch, show_progress=False)
        np.save(scratch / _PLACES, np.asarray(places, dtype=np.int64))
        manifest = {
            "format": FORMAT,
            "corpus": digest,
            "files": [str(file) for file in corpus.files],
            "documents": len(texts),
        }
        (scratch / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check(place: Path, corpus: Corpus, digest: str) -> None:
    """Raises `OptionError` unless the index at `place` is that of the corpus."""
    try:
        found = json.loads((place / _MANIFEST).read_text())
        kind, of, files = found["format"], found["corpus"], found["files"]
    except (OSError, ValueError, KeyError, TypeError):
        raise OptionError(
            f"search.options.index: {place} is no index; give another folder, or remove it"
        ) from None
    if of != digest:
        raise OptionError(
            f"search.options.index: {place} was built from {', '.join(map(str, files))} "
            f"({str(of)[:12]}), and search.options.corpus is {', '.join(map(str, corpus.files))} "
            f"({digest[:12]}); give the corpus of the index, or another folder for a new index"
        )
    if kind != FORMAT:
        raise OptionError(
            f"search.options.index: {place} has the form {kind!r}, and this version writes "
            f"{FORMAT!r}; remove the folder: the index is built again"
        )


def _digest(corpus: Corpus, cache: Path) -> str:
    """The digest of a corpus. It is kept beside the indexes, so that gigabytes are read once and
    not by every process or thread."""
    kept = cache / f"digest-{corpus.stamp()[:32]}"
    with _lock(kept):
        if not kept.exists():
            scratch = kept.with_suffix(".new")
            scratch.write_text(corpus.digest())
            scratch.rename(kept)
    return kept.read_text()


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Hold the lock of a path while it is built. One that exists needs none: it may be on a
    read-only volume."""
    if place.exists():
        yield
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
