"""Build the cluster's programs from Go modules: python tests/cluster/build.py [PROGRAM...]

Nothing of other projects is in this repository but their names and checksums (go.mod, go.sum). What
is built lands in the cache and stays until its module or its recipe changes. Needs go 1.26 and gcc.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import debian
import prepare
from command import run
from place import BIN, BUILD, HERE, ClusterError
from recipes import LINK, MANIFESTS, MODULES, RECIPES, Recipe

LONGEST_S = 5400
"""All programs of a module, on a slow machine with an empty cache."""


def everything() -> None:
    """What `cluster.py up` needs; says nothing where there is nothing to do."""
    debian.install()
    programs(name for name, recipe in RECIPES.items() if not recipe.extra)
    pause()
    (BUILD / "kfp-config/sample_config.json").write_text('{"pipelines":[]}')
    metadata()


def programs(names: Iterable[str]) -> None:
    """Those that are not as they should be; all of one module in one go, on all cores."""
    wanted = [RECIPES[name] for name in names]
    missing = [recipe for recipe in wanted if not kept(f"bin/{recipe.name}", key(recipe))]
    for name in dict.fromkeys(recipe.module for recipe in missing):
        compiled(name, [recipe for recipe in missing if recipe.module == name])
    for recipe in wanted:
        manifests(recipe)


def kept(target: str, wanted: str) -> bool:
    """Whether a file or folder of the build is there, and made from what is `wanted`."""
    note = noted(target)
    return (BUILD / target).exists() and note.exists() and note.read_text() == wanted


def keep(target: str, made_from: str) -> None:
    noted(target).parent.mkdir(parents=True, exist_ok=True)
    noted(target).write_text(made_from)


def noted(target: str) -> Path:
    return BUILD / "keys" / target.replace("/", "-")


def unless_kept(target: str, wanted: str, make: Callable[[], object]) -> None:
    """Make a file or folder of the build, if what is there was made from something else."""
    if not kept(target, wanted):
        with timed(target):
            make()
        keep(target, wanted)


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"Building {what} ...", flush=True)
    yield
    print(f"  {time.monotonic() - began:.0f} s", flush=True)


def key(recipe: Recipe) -> str:
    """Changes with whatever the program is made from."""
    content = hashlib.sha256(f"{recipe!r} {LINK}".encode())
    for path in sources(recipe.module):
        content.update(path.read_bytes())
    return content.hexdigest()


def sources(name: str) -> list[Path]:
    """What a module's folder holds in this repository."""
    return sorted(path for path in MODULES[name].rglob("*") if path.is_file())


def compiled(name: str, recipes: Sequence[Recipe]) -> None:
    """Programs of one module."""
    folder = module(name)
    made = folder / "made"
    with timed(", ".join(recipe.name for recipe in recipes)):
        run(
            "go", "build", "-mod=mod", "-trimpath", "-ldflags", LINK, "-o", f"{made}/",
            *(recipe.package for recipe in recipes),
            cwd=folder, env=prepare.GO, seconds=LONGEST_S,
        )  # fmt: skip
    BIN.mkdir(parents=True, exist_ok=True)
    for recipe in recipes:
        (made / recipe.output).rename(BIN / recipe.name)
        keep(f"bin/{recipe.name}", key(recipe))


def module(name: str) -> Path:
    """A module's folder in the cache, ready for `go build`, which may write there."""
    made_from = "".join(path.read_text() for path in sources(name))
    folder = BUILD / name
    if not kept(name, made_from):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODULES[name], folder)
        if name in prepare.STEPS:
            prepare.STEPS[name](folder)
        keep(name, made_from)
    return folder


def pause() -> None:
    """The process that holds a pod's namespaces."""
    source = HERE / "pause.c"
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    compiler = ("gcc", "-O2", "-static", "-o", BIN / "pause", source)
    unless_kept("bin/pause", wanted, partial(run, *compiler))


def manifests(recipe: Recipe) -> None:
    """Kinds, roles and settings, read from the module of the program that needs them."""
    for target, (name, path) in MANIFESTS.items():
        if name == recipe.name:
            unless_kept(target, key(recipe), partial(copied, target, recipe, path))


def copied(target: str, recipe: Recipe, path: str) -> None:
    source = prepare.source_of(module(recipe.module), recipe.upstream) / path
    destination = BUILD / target
    if source.is_file():
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        return
    shutil.rmtree(destination, ignore_errors=True)
    # the module cache is read-only, and so would be the copy
    shutil.copytree(source, destination, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(destination):
        Path(folder).chmod(0o755)


def metadata() -> None:
    """ML Metadata's store has an environment of its own: it needs protobuf before 5."""
    requirement = "ml-metadata==1.17.1"

    def make() -> None:
        run(sys.executable, "-m", "venv", "--clear", BUILD / "mlmd")
        run(BUILD / "mlmd/bin/pip", "-q", "install", requirement, seconds=600)

    unless_kept("mlmd", requirement, make)


if __name__ == "__main__":
    try:
        programs(sys.argv[1:]) if sys.argv[1:] else everything()
    except KeyError as unknown:
        sys.exit(f"no program {unknown}; there are: {', '.join(RECIPES)}")
    except ClusterError as error:
        sys.exit(f"build: {error}")
