"""The examples of docs/extending.md work: the blocks of each section are a module with tests."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from repository import PACKAGES, ROOT

PAGE = ROOT / "docs/extending.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WHERE = re.compile(r"# ((?:agentrl_\w+|tests)/[\w/]+\.py)\n")


def sections() -> dict[str, list[str]]:
    """The Python blocks of each section."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(BLOCK.findall, parts[2::2]), strict=True))


SECTIONS = sections()


@contextmanager
def imported(block: str, path: Path) -> Iterator[ModuleType]:
    """A block as the module that it names, which others can import meanwhile."""
    place = WHERE.match(block)
    assert place is not None, block
    name = place.group(1).removesuffix(".py").replace("/", ".")
    path.write_text(block, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module, before = importlib.util.module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tests_of_an_example_pass_with_the_imports_that_it_shows(section: str, tmp_path: Path):
    with ExitStack() as stack:
        *_, module = (
            stack.enter_context(imported(block, tmp_path / f"block_{number}.py"))
            for number, block in enumerate(SECTIONS[section])
        )
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
        assert tests, f"{section}: has no test"
        for index, test in enumerate(tests):
            folder = tmp_path / str(index)
            folder.mkdir()
            test(*[folder for _ in inspect.signature(test).parameters])


@pytest.mark.parametrize("section", SECTIONS)
def test_an_example_names_its_files_in_folders_that_exist(section: str):
    places = [WHERE.match(block) for block in SECTIONS[section]]
    assert all(places), f"{section}: a block does not start with the comment that names its file"
    names = [place.group(1) for place in places if place]
    assert any(name.startswith("tests/") for name in names)
    for name in names:
        package, _, rest = name.partition("/")
        path = PACKAGES[package] / rest if package in PACKAGES else ROOT / name
        assert path.parent.is_dir(), f"{name}: no such folder"


def test_the_page_covers_each_kind_of_extension():
    assert len(SECTIONS) >= 10


def test_the_examples_keep_to_the_style_of_the_repository(tmp_path: Path):
    for section, blocks in enumerate(SECTIONS.values()):
        for number, block in enumerate(blocks):
            (tmp_path / f"test_{section}_{number}.py").write_text(block)
    rules = ["--ignore", "E402,I001,ANN", "--config", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "ruff", "check", *rules, "--no-cache", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
