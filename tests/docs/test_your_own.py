"""The commands of docs/environments/your-own.md work, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from click.testing import CliRunner
from dial_server import dial_server
from repository import ROOT

from agentrl_pipelines.cli.main import main

PAGE = ROOT / "docs/environments/your-own.md"
BLOCK = re.compile(r"^```(console|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
AGENTRL = [sys.executable, "-c", "from agentrl_pipelines.cli.main import main; main()"]


def install(package: Path, site: Path) -> None:
    """What `pip install -e` leaves behind: a path, metadata and entry points. Building the package
    would download its build backend."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points)


def run(command: list[str], folder: Path) -> str:
    path = [str(folder / "my-world"), str(folder / "site"), *filter(None, sys.path)]
    if command[0] == "agentrl":
        command = [*AGENTRL, *command[1:]]
    if command[0] == "pytest":
        command = [sys.executable, "-m", *command, "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path):
    commands = 0
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "yaml":
            if name := re.match(r"# (\S+)\n", block):
                (tmp_path / name.group(1)).write_text(block)
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *shown = part.rstrip().splitlines()
            commands += 1
            if line == "pip install -e ./my-world":
                install(tmp_path / "my-world", tmp_path / "site")
                continue
            printed = [each.rstrip() for each in run(shlex.split(line), tmp_path).splitlines()]
            assert set(shown) <= set(printed), f"{line}: {printed}"
    assert commands >= 6


def test_a_server_as_the_page_describes_it_breaks_no_rule():
    with dial_server() as url:
        checked = CliRunner().invoke(main, ["envs", "check", "dial", "--url", url, "--tasks", "5"])
    assert checked.exit_code == 0, checked.output
    assert "0 of 20 rules broken" in checked.output
