"""The model folder of an actor: one copy a machine, which stays there for later actors."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir

from agentrl_components.errors import ModelError
from agentrl_components.model.digests import digest_of, sample_of
from agentrl_components.model.sources import fetch_model
from agentrl_components.spec import Model, RunSpec

IN_PLACE = ("file", "hf")
"""Schemes of sources of which `fetch_model` makes no copy."""
Fetch = Callable[[Model, Sequence[str], int, Path], Path]
"""Gets a model, as `fetch_model` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """Where the driver has the model, and what an actor on another machine fetches it from."""

    path: Path
    vocabulary: Sequence[str]
    """Words of the environments, for a tiny model."""
    content: str = ""
    """Digest of the files in `path`, which names the copies; of a `file://` source, which is not
    copied, `sample_of` it. Empty if nothing is compared: all actors are on the driver's machine, or
    the model has a commit."""

    @classmethod
    def of(cls, model: Model, path: Path, vocabulary: Sequence[str]) -> ModelFolder:
        """The driver's folder of `model`. Reads all of its files, unless it is used in place."""
        match _scheme(model):
            case "hf":
                content = ""
            case "file":
                content = sample_of(path)
            case _:
                content = digest_of(path)
        return cls(path=path, vocabulary=vocabulary, content=content)

    def open(
        self, spec: RunSpec, temporary: Path | None = None, fetch: Fetch | None = None
    ) -> Path:
        """The model folder on this machine. A copy is in a folder of this user in `temporary`, by
        default that of Python's `tempfile`. Raises `ModelError` if the model cannot be fetched, or
        is another one by now."""
        fetch = fetch or partial(fetch_model, storage=spec.storage)
        if (self.path / "config.json").is_file():
            return self._checked(spec.model, self.path)
        if _scheme(spec.model) in IN_PLACE:
            found = fetch(spec.model, self.vocabulary, spec.seed, self.path)
            return self._checked(spec.model, found)

        def fetch_same(folder: Path) -> Path:
            found = fetch(spec.model, self.vocabulary, spec.seed, folder)
            # Random weights may be rounded in another way on this machine.
            if _scheme(spec.model) != "tiny" and digest_of(found) != self.content:
                raise ModelError(
                    f"{spec.model.source}: has changed since the driver read it; start the run "
                    "again"
                )
            return found

        own = own_folder(temporary or Path(gettempdir()), os.getuid())
        return copied_once(own / self.content, fetch_same)

    def _checked(self, model: Model, found: Path) -> Path:
        """`found`, unless it is a `file://` source with another model than the driver's folder."""
        if _scheme(model) == "file" and self.content and sample_of(found) != self.content:
            raise ModelError(
                f"{model.source}: is another model on {gethostname()} than on the driver's "
                "machine; copy the driver's folder there, or use a file system that both mount"
            )
        return found


def own_folder(temporary: Path, user: int) -> Path:
    """A folder in `temporary` that only `user`, who runs this process, can write to. Raises
    `ModelError` if it is another user's."""
    own = temporary / f"agentrl-models-{user}"
    with suppress(FileExistsError):
        own.mkdir(mode=0o700)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        raise ModelError(f"{own}: is another user's; set TMPDIR to a folder of your own")
    return own


def copied_once(place: Path, fetch: Callable[[Path], Path]) -> Path:
    """The folder `place`, made from the one that `fetch` returns: the empty folder that it is
    given, or one inside it. If several processes call this at the same time, one fetches."""
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            return place
        part = place.with_name(f"{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        try:
            part.mkdir()
            fetch(part).rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return place


def _scheme(model: Model) -> str:
    return model.source.partition(":")[0]
