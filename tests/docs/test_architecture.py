"""docs/architecture.md and its pictures show the folders that exist."""

from __future__ import annotations

import re

import diagrams
import pytest
from repository import PACKAGES, ROOT

TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def folders(package: str) -> set[str]:
    """Folders directly below a package that are packages themselves."""
    return {path.parent.name for path in PACKAGES[package].glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_of_the_packages_shows_each_folder_once(package: str):
    drawn = [name for layer in diagrams.LAYERS[package] for name in layer]
    assert sorted(drawn) == sorted(folders(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_says_what_each_folder_is_for(package: str):
    rows = re.findall(rf"^\| `{package}/(\w+)/` \| (\S.+) \|$", TEXT, re.MULTILINE)
    assert {name for name, _ in rows} == folders(package)


def test_the_pictures_are_those_that_the_script_draws():
    for name, drawing in (("rooms", diagrams.rooms()), ("manifest", diagrams.manifest())):
        assert (ROOT / f"docs/images/{name}.svg").read_text(encoding="utf-8") == str(drawing)


def test_the_table_of_changes_has_at_least_twenty_rows():
    table = TEXT.partition("## Where do I change X")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!change|---)(.+?) \| (`.+?`) \|", table, re.MULTILINE)
    assert len(rows) >= 20
    assert len({name for name, _ in rows}) == len(rows)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down_between_the_layers_that_are_drawn(package: str):
    level = {name: at for at, layer in enumerate(diagrams.LAYERS[package]) for name in layer}
    upwards = set()
    for path in PACKAGES[package].glob("*/**/*.py"):
        folder = path.relative_to(PACKAGES[package]).parts[0]
        for other in re.findall(rf"(?:from|import) {package}\.(\w+)", path.read_text("utf-8")):
            if other in level and level[other] < level[folder]:
                upwards.add(f"{folder} -> {other}")
    assert not upwards
