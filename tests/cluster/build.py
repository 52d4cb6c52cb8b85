"""Build the cluster's programs from Go modules: python tests/cluster/build.py [PROGRAM...]

Nothing of other projects is in this repository but their names and checksums (go.mod, go.sum). What
is built lands in the cache and stays until its module or its recipe changes. Needs go 1.26 and gcc.
Cold, on two cores: 16 minutes; again: nothing to do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import debian
import prepare
from command import run
from place import BIN, BUILD, HERE, ClusterError
from recipes import MANIFESTS, MODULES, RECIPES, Recipe

LONGEST_S = 1800
"""One program's build, on a slow machine with an empty cache."""


def everything() -> None:
    """What `cluster.py up` needs; says nothing where there is nothing to do."""
    debian.install()
    programs(name for name, recipe in RECIPES.items() if not recipe.extra)
    pause()
    (BUILD / "kfp-config/sample_config.json").write_text('{"pipelines":[]}')
    metadata()


def programs(names: Iterable[str]) -> None:
    for name in names:
        recipe = RECIPES[name]
        unless_kept(f"bin/{name}", key(recipe), partial(compiled, recipe))
        manifests(recipe)


def unless_kept(target: str, wanted: str, make: Callable[[], object]) -> None:
    """Make a file or folder of the build, if what is there was made from something else."""
    note = BUILD / "keys" / target.replace("/", "-")
    if (BUILD / target).exists() and note.exists() and note.read_text() == wanted:
        return
    began = time.monotonic()
    print(f"Building {target} ...", flush=True)
    make()
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(wanted)
    print(f"  {target}: {time.monotonic() - began:.0f} s", flush=True)


def key(recipe: Recipe) -> str:
    """Changes with whatever the program is made from."""
    content = hashlib.sha256(repr(recipe).encode())
    for name in ("go.mod", "go.sum"):
        content.update((MODULES[recipe.module] / name).read_bytes())
    return content.hexdigest()


def compiled(recipe: Recipe) -> None:
    folder = module(recipe.module)
    BIN.mkdir(parents=True, exist_ok=True)
    part = BIN / f".{recipe.name}.part"
    run(
        "go", "build", "-mod=mod", "-trimpath", "-ldflags", f"-s -w {recipe.link}",
        "-o", part, recipe.package,
        cwd=folder, env=prepare.GO | {"CGO_ENABLED": str(int(recipe.cgo))}, seconds=LONGEST_S,
    )  # fmt: skip
    part.rename(BIN / recipe.name)


def module(name: str) -> Path:
    """A module's folder in the cache, ready for `go build`, which may write there."""
    source, folder = MODULES[name], BUILD / name
    kept = folder / ".made-from"
    made_from = (source / "go.mod").read_text() + (source / "go.sum").read_text()
    if not (kept.exists() and kept.read_text() == made_from):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        if name in prepare.STEPS:
            prepare.STEPS[name](folder)
        kept.write_text(made_from)
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
