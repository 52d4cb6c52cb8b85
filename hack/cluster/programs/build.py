"""Build the programs of the local cluster from Go modules.

This repository holds only go.mod and go.sum of other projects. A program is built once and kept in
the cache until its module or its recipe changes. Needs Go 1.26 and gcc.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cluster.command import run
from cluster.programs import debian, module_patches
from cluster.programs.recipes import LINK, MANIFESTS, MODULES, RECIPES, Recipe
from cluster.settings import BIN, BUILD, HERE, ClusterError

BUILD_S = 5400
"""Time limit for all programs of a module on a slow machine with an empty cache, in seconds."""
WITHOUT_DEBUG = "-gcflags=all=-dwarf=false"
"""Takes a fifth off the time of a build. The linker leaves debug information out in any case."""


def main(names: Sequence[str]) -> int:
    """Build the named programs, or everything that the local cluster needs."""
    if unknown := set(names) - set(RECIPES):
        print(f"no program {', '.join(unknown)}; known: {', '.join(RECIPES)}", file=sys.stderr)
        return 2
    try:
        if names:
            build_programs(names)
        else:
            build_all()
    except ClusterError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


def build_all() -> None:
    """Build what the local cluster needs; prints nothing if everything is up to date."""
    debian.install()
    build_programs(name for name, recipe in RECIPES.items() if not recipe.extra)
    with build_lock():
        build_pause()
        (BUILD / "kfp-config/sample_config.json").write_text('{"pipelines":[]}')
        install_ml_metadata()


def build_programs(names: Iterable[str]) -> None:
    """Build the programs that are missing or out of date, one `go build` per module."""
    wanted = [RECIPES[name] for name in names]
    for module in dict.fromkeys(recipe.module for recipe in wanted):
        recipes = [recipe for recipe in wanted if recipe.module == module]
        with build_lock():  # per module: another process may need only one of them
            if stale := [one for one in recipes if not is_current(f"bin/{one.name}", key(one))]:
                compile_module(module, stale)
            for recipe in recipes:
                copy_manifests(recipe)


@contextmanager
def build_lock() -> Iterator[None]:
    """Let one process build at a time: two `go build` at once would compile the same packages."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another build ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current(target: str, wanted: str) -> bool:
    """Whether a file or folder of the build exists and was made from the inputs `wanted`."""
    note = key_file(target)
    return (BUILD / target).exists() and note.exists() and note.read_text() == wanted


def record(target: str, made_from: str) -> None:
    """Remember what a target was made from."""
    key_file(target).parent.mkdir(parents=True, exist_ok=True)
    key_file(target).write_text(made_from)


def key_file(target: str) -> Path:
    return BUILD / "keys" / target.replace("/", "-")


def make_if_stale(target: str, wanted: str, make: Callable[[], object]) -> None:
    """Make a target, unless it exists and was made from the inputs `wanted`."""
    if not is_current(target, wanted):
        with timed(target):
            make()
        record(target, wanted)


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"Building {what} ...", flush=True)
    yield
    print(f"  {time.monotonic() - began:.0f} s", flush=True)


def key(recipe: Recipe) -> str:
    """Hash of everything that a program is made from."""
    content = hashlib.sha256(f"{recipe!r} {LINK}".encode())
    for path in module_files(recipe.module):
        content.update(path.read_bytes())
    return content.hexdigest()


def module_files(name: str) -> list[Path]:
    """The files that this repository holds of a module."""
    return sorted(path for path in MODULES[name].rglob("*") if path.is_file())


def compile_module(name: str, recipes: Sequence[Recipe]) -> None:
    """Compile programs of one module and put them into `bin`."""
    folder = prepare_module(name)
    made = folder / "made"
    with timed(", ".join(recipe.name for recipe in recipes)):
        run(
            "go", "build", "-mod=mod", "-trimpath", WITHOUT_DEBUG, "-ldflags", LINK,
            "-o", f"{made}/",
            *(recipe.package for recipe in recipes),
            cwd=folder, env=module_patches.GO, seconds=BUILD_S,
        )  # fmt: skip
    BIN.mkdir(parents=True, exist_ok=True)
    for recipe in recipes:
        (made / recipe.output).rename(BIN / recipe.name)
        record(f"bin/{recipe.name}", key(recipe))


def prepare_module(name: str) -> Path:
    """Copy a module to the cache, where `go build` may write, and apply its patches."""
    made_from = "".join(path.read_text() for path in module_files(name))
    folder = BUILD / name
    if not is_current(name, made_from):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODULES[name], folder)
        if name in module_patches.PATCHES:
            module_patches.PATCHES[name](folder)
        record(name, made_from)
    return folder


def build_pause() -> None:
    """The program that holds the namespaces of a pod."""
    source = HERE / "programs/pause.c"
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    compiler = ("gcc", "-O2", "-static", "-o", BIN / "pause", source)
    make_if_stale("bin/pause", wanted, partial(run, *compiler))


def copy_manifests(recipe: Recipe) -> None:
    """Copy CRDs, roles and settings from the module of the program that needs them."""
    for target, (name, path) in MANIFESTS.items():
        if name == recipe.name:
            make_if_stale(target, key(recipe), partial(copy_upstream, target, recipe, path))


def copy_upstream(target: str, recipe: Recipe, path: str) -> None:
    source = module_patches.source_of(prepare_module(recipe.module), recipe.upstream) / path
    destination = BUILD / target
    if source.is_file():
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        return
    shutil.rmtree(destination, ignore_errors=True)
    # Go's module cache is read-only: copyfile leaves the permissions behind
    shutil.copytree(source, destination, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(destination):
        Path(folder).chmod(0o755)


def install_ml_metadata() -> None:
    """Install ML Metadata into its own environment, because it needs protobuf before 5."""
    requirement = "ml-metadata==1.17.1"

    def make() -> None:
        run(sys.executable, "-m", "venv", "--clear", BUILD / "mlmd")
        run(BUILD / "mlmd/bin/pip", "-q", "install", requirement, seconds=600)

    make_if_stale("mlmd", requirement, make)
