"""Links, anchors, paths and test names in the documents lead to what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from repository import DOCUMENTS, PACKAGES, ROOT, make_targets

FENCE = re.compile(r"^(```|~~~).*?^\1 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
NAMED = (".py", ".md", ".yaml", ".yml", ".sh", ".json", ".svg", ".toml", "/")
"""What the name of a file or folder in a document ends with."""
MADE = (
    "report.json",
    "report.html",
    "eval.json",
    "eval.html",
    "store/",
    "build/",
    "dist/",
    "runs/",
)
"""Files and folders that commands write, and the repository does not have."""

IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a Markdown file, as GitHub and the site make them."""
    headings = re.findall(r"^#+ +(.+?) *#*$", FENCE.sub("", text_of(path)), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_relative_links_lead_to_files_and_headings(document: Path):
    for target in LINK.findall(FENCE.sub("", text_of(document))):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        generated = ROOT / "docs/api/index.md"  # the site's API reference
        path = (document.parent / name).resolve() if name else document
        assert path.exists() or path == generated, f"{target}: no such file"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{target}: no such heading"


def candidates(name: str, document: Path) -> list[Path]:
    """Where a path in a document may start: here, the root, an import package, or tests."""
    package, _, rest = name.partition("/")
    if package in PACKAGES:
        return [PACKAGES[package] / rest] if rest else [PACKAGES[package]]
    return [start / name for start in (ROOT, document.parent, ROOT / "tests")]


def exists(path: Path) -> bool:
    """Whether a file or folder, or any that a pattern with `*` matches, exists."""
    if "*" in path.name:
        return any(path.parent.glob(path.name))
    return path.exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_paths_in_the_text_exist(document: Path):
    for code in CODE.findall(FENCE.sub("", text_of(document))):
        name = code.partition("::")[0]
        if "/" not in name.rstrip("/") or not FILE.fullmatch(name) or name.startswith(MADE):
            continue
        if name.endswith(NAMED):
            assert any(exists(path) for path in candidates(name, document)), f"{name}: not found"


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_tests_that_are_named_in_the_text_exist(document: Path):
    current = ""
    for code in CODE.findall(text_of(document)):
        name, colons, test = code.partition("::")
        current = name or current
        if colons:
            sources = [text_of(p) for p in candidates(current, document) if p.is_file()]
            assert any(f"def {test}(" in source for source in sources), f"{code}: not found"


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_make_targets_that_are_named_in_the_text_exist(document: Path):
    for code in CODE.findall(text_of(document)):
        if code.startswith("make "):
            named = set(code.split()[1:])
            assert named <= make_targets(), code
