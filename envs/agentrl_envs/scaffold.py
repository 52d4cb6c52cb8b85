"""Writes the package of a new environment: a game that works, its test, and its metadata.

`agentrl envs new NAME` calls it. The game is a dial; its author replaces it.
"""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from string import Template

from agentrl_envs.errors import OptionError
from agentrl_envs.extensions import installed
from agentrl_envs.registry import names

NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

MODULE = Template('''\
"""Turn a dial to a number, one step at a time. Replace this game with your own."""

from agentrl_envs.env import Environment, Observation, Step, Task
from agentrl_envs.task_list import TaskList


class ${title}Tasks(TaskList):
    """The supply of tasks. The parameters of the constructor are the environment's options."""

    name = "${name}"

    def __init__(self, largest: int = 9) -> None:
        numbers = range(largest + 1)
        super().__init__({"start": a, "target": b} for a in numbers for b in numbers if a != b)

    def instructions(self) -> str:
        return "Turn the dial to the target. Reply with Action: up or Action: down."

    def environment(self) -> Environment:
        return ${title}(self)


class ${title}:
    """One session: plays one task at a time."""

    def __init__(self, tasks: ${title}Tasks) -> None:
        self._tasks, self._at, self._target = tasks, 0, 0

    def reset(self, task: Task) -> Observation:
        content = self._tasks.content(task)  # raises TaskError if the task is not ours
        self._at, self._target = content["start"], content["target"]
        return self._observation()

    def step(self, action: str) -> Step:
        word = action.rpartition("Action:")[2].strip().lower()
        valid = word in self._moves()
        if valid:
            self._at += 1 if word == "up" else -1
        solved = self._at == self._target
        return Step(
            observation=self._observation("" if valid else "This is not possible. "),
            reward=float(valid and solved), terminated=solved, truncated=False,
            wellformed=valid, success=solved, raw_score=float(solved),
        )

    def close(self) -> None: ...

    def _moves(self) -> tuple[str, ...]:
        return () if self._at == self._target else ("up", "down")

    def _observation(self, message: str = "") -> Observation:
        text = f"{message}The dial is at {self._at}, the target is {self._target}."
        return Observation(text=text, admissible=self._moves())
''')

TEST = Template("""\
from agentrl_envs.conformance.check import check
from ${module} import ${title}Tasks


def test_the_contract_is_kept() -> None:
    report = check(${title}Tasks(), tasks=10, factory=${title}Tasks)
    assert report.passed, str(report)
""")

METADATA = Template("""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "${name}"
version = "0.1.0"
dependencies = ["agentrl[envs]"]

[project.entry-points."agentrl.environments"]
${name} = "${module}:${title}Tasks"
""")


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package into `folder`, which must not exist; returns its files.

    Raises `OptionError` for a name that cannot be one, or is taken."""
    module = name.replace("-", "_")
    if NAME.fullmatch(name) is None or keyword.iskeyword(module):
        raise OptionError(
            f"NAME: {name!r} is not the name of an environment; use lower-case letters, digits and "
            "hyphens, such as my-world"
        )
    if name in names() or name in installed():
        raise OptionError(f"NAME: {name} is the name of another environment; choose another")
    if module.startswith("agentrl") or find_spec(module) is not None:
        raise OptionError(f"NAME: {module} is the name of another Python module; choose another")
    if folder.exists():
        raise OptionError(f"--folder: {folder} exists; choose another")
    words = {"name": name, "module": module, "title": name.title().replace("-", "")}
    folder.mkdir(parents=True)
    files = {
        folder / f"{module}.py": MODULE,
        folder / f"test_{module}.py": TEST,
        folder / "pyproject.toml": METADATA,
    }
    for path, template in files.items():
        path.write_text(template.substitute(words), encoding="utf-8")
    return list(files)
