"""MkDocs hooks of the documentation site (`make docs`).

- The API reference: one page for each Python package below the four import packages, found by
  walking the source tree, so that a new module appears without an entry in mkdocs.yml.
- Pages that live outside docs/ (CONTRIBUTING.md, SECURITY.md, ...) become pages of the site.
- A link to another file of the repository becomes a link to the file's page, to the hosted
  repository when `repo_url` is set, and otherwise its text.
- The build fails when a page loads a script, style, font or image from another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = {
    "agentrl_components": "components",
    "agentrl_envs": "envs",
    "agentrl_pipelines": "pipelines",
    "agentrl_operator": "operator",
}
"""Import package and the folder of the repository that holds it."""

OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "helm/agentrl/README.md": "chart.md",
}
"""Markdown files outside docs/, and their place in the site."""

FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon))"""
    r"""[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]+""",
    re.IGNORECASE,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the section API to the navigation."""
    sections: list[dict[str, Any]] = []
    for package, folder in PACKAGES.items():
        names = packages(ROOT / folder, package)
        pages = [{name.removeprefix(f"{package}."): page_of(name)} for name in names]
        sections.append({package: pages})
    nav = config.nav if isinstance(config.nav, list) else []
    config.nav = [*nav, {"API": [{"API": "api/index.md"}, *sections]}]
    config.watch = [*config.watch, *(str(ROOT / folder) for folder in PACKAGES.values())]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and those that live outside docs/."""
    for source, target in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=text))
    for package, folder in PACKAGES.items():
        for name in packages(ROOT / folder, package):
            content = reference(ROOT / folder, name)
            files.append(File.generated(config, page_of(name), content=content))
    files.append(File.generated(config, "api/index.md", content=index()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files of the repository at pages of the site."""
    uri = page.file.src_uri
    if uri.startswith("api/"):
        return markdown
    outside = {target: source for source, target in OUTSIDE.items()}
    source = PurePosixPath(outside.get(uri, f"docs/{uri}"))

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match.group()
        place = normpath(str(source.parent / path))
        inside = OUTSIDE.get(place) or place.removeprefix("docs/")
        if files.get_file_from_path(inside) and (place in OUTSIDE or place.startswith("docs/")):
            return f"[{text}]({relpath(inside, PurePosixPath(uri).parent)}{hash_}{anchor})"
        if not (ROOT / place).exists():
            raise PluginError(f"{source}: {target} names no file of the repository")
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{place}{hash_}{anchor})"
        return f"{text} (`{place}`)" if text.strip("`") not in place else f"`{place}`"

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(link, markdown[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, LINK.sub(link, markdown[end:])])


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Fail when the page would load something from another host."""
    del config
    loaded = LOADED.search(output)
    if loaded:
        raise PluginError(f"{page.file.src_uri}: loads from another host: {loaded.group()}")
    return output


def packages(folder: Path, package: str) -> Iterator[str]:
    """Dotted names of `package` and of the packages below it that have a public module."""
    for init in sorted((folder / package).rglob("__init__.py")):
        name = ".".join(init.parent.relative_to(folder).parts)
        if "._" not in name and (init.read_text(encoding="utf-8").strip() or modules(init.parent)):
            yield name


def modules(folder: Path) -> list[str]:
    """Names of the public modules of the package in `folder`."""
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def page_of(package: str) -> str:
    """Path of a package's page in the site."""
    return f"api/{package.replace('.', '/')}/index.md"


def reference(folder: Path, package: str) -> str:
    """The page of a package: its own docstring, then every module."""
    place = folder / Path(*package.split("."))
    lines = [f"# {package}", ""]
    if (place / "__init__.py").read_text(encoding="utf-8").strip():
        lines += [directive(package, heading=False), ""]
    for module in modules(place):
        lines += [directive(f"{package}.{module}", heading=True), ""]
    return "\n".join(lines)


def directive(name: str, *, heading: bool) -> str:
    """mkdocstrings' directive for one module, without the modules below it."""
    options = [f"::: {name}", "    options:", "      show_submodules: false"]
    if not heading:
        options.append("      show_root_heading: false")
    return "\n".join(options)


def index() -> str:
    """The page that lists all packages."""
    lines = [
        "# API reference",
        "",
        "Generated from the docstrings. Imports point one way:",
        "`agentrl_operator` → `agentrl_pipelines` → `agentrl_components` → `agentrl_envs`.",
        "[Architecture](../architecture.md) describes the packages.",
        "",
    ]
    for package, folder in PACKAGES.items():
        lines += [f"## {package}", "", "| package | modules |", "|---|---|"]
        for name in packages(ROOT / folder, package):
            place = ROOT / folder / Path(*name.split("."))
            page = page_of(name).removeprefix("api/")
            lines.append(f"| [`{name}`]({page}) | {', '.join(modules(place))} |")
        lines.append("")
    return "\n".join(lines)
