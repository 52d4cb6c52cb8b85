"""A corpus of documents in JSON Lines files, read in place.

Documents stay in their files: the index keeps where each line starts, and a search reads the few
lines that it returns. Two forms of a line are known:

    {"id": "12", "contents": "\\"Title\\"\\nText ..."}    Pyserini, Search-R1, AgentGym's wiki-18
    {"id": "12", "title": "Title", "text": "Text ..."}  BEIR and others
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentrl_envs.environments.search.retrieval.retriever import Document
from agentrl_envs.errors import OptionError, SessionError

_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Line:
    """Where a document is: the number of its file, and the position of its line in bytes."""

    file: int
    start: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of a corpus, in order."""

    files: tuple[Path, ...]

    @classmethod
    def of(cls, names: Sequence[str]) -> Corpus:
        """The corpus of paths and file:// URLs. Raises `OptionError` for a file that is not there
        and for a URL of another scheme."""
        return cls(tuple(_local_path(name) for name in names))

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    def digest(self) -> str:
        """SHA-256 of the contents of the files, in order."""
        found = hashlib.sha256()
        for file in self.files:
            with file.open("rb") as opened:
                found.update(hashlib.file_digest(opened, "sha256").digest())
        return found.hexdigest()

    def stamp(self) -> str:
        """Hash of names, sizes and times of modification: changes with the contents, and is known
        without reading them."""
        stats = [(str(file.resolve()), file.stat()) for file in self.files]
        told = [(name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in stats]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def documents(self) -> Iterator[tuple[Line, Document]]:
        """Every document with its place. Raises `OptionError` for a line that holds none."""
        for number, file in enumerate(self.files):
            with file.open("rb") as opened:
                start = 0
                for count, line in enumerate(opened, 1):
                    if line.strip():
                        yield Line(number, start), _document(line, f"{file}:{count}")
                    start += len(line)


class OpenCorpus:
    """Reads single documents. Thread-safe: reads have no position in common."""

    def __init__(self, corpus: Corpus) -> None:
        self._files = corpus.files
        self._descriptors: list[int] = []
        for file in corpus.files:
            self._descriptors.append(os.open(file, os.O_RDONLY))

    def read(self, place: Line) -> Document:
        """The document at `place`. Raises `SessionError` if it is not there any more."""
        where = f"{self._files[place.file]} at byte {place.start}"
        line, start = b"", place.start
        while not line.endswith(b"\n"):
            chunk = os.pread(self._descriptors[place.file], 1 << 16, start + len(line))
            if not chunk:
                break
            head, newline, _ = chunk.partition(b"\n")
            line += head + newline
        try:
            return _document(line, where)
        except OptionError as error:
            raise SessionError(f"{error}; the corpus was changed while it was in use") from None

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


def _document(line: bytes, where: str) -> Document:
    try:
        found = json.loads(line)
    except ValueError:
        raise OptionError(
            f"search.options.corpus: {where}: no JSON; use a line a document"
        ) from None
    if isinstance(found, dict):
        title, text, contents = (found.get(key) for key in ("title", "text", "contents"))
        if isinstance(contents, str):
            head, _, rest = contents.partition("\n")
            return Document(title=head, text=rest)
        if isinstance(text, str):
            return Document(title=title if isinstance(title, str) else "", text=text)
    raise OptionError(
        f"search.options.corpus: {where}: no document; a line has `contents`, or `title` and `text`"
    )


def _local_path(name: str) -> Path:
    # `?` and `#` are characters of the path, as in a name without a scheme.
    parts = urlsplit(name.replace("?", "%3F").replace("#", "%23"))
    if parts.scheme not in ("", "file"):
        raise OptionError(
            f"search.options.corpus: {name}: {parts.scheme}:// is not read; copy the file into a "
            "volume of the environment server, and give its path"
        )
    path = Path(unquote(parts.path) if parts.scheme else name).expanduser()
    if not path.is_file():
        raise OptionError(f"search.options.corpus: {path}: no such file; give a JSON Lines file")
    return path
