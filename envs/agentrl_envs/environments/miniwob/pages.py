"""MiniWoB++'s pages: where they are, how an episode is started, what its script says.

The constants are functions of ours that run in the page; seeds and names are their arguments.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from agentrl_envs.env import content_id
from agentrl_envs.errors import TaskError

NAME = "miniwob"

START: Final = """
seed => {
  core.EPISODE_MAX_TIME = 1e9;
  Math.seedrandom(seed);
  core.setDataMode("train");
  core.startEpisodeReal();
}
"""
"""Starts the episode of a seed, as the package does, without its limit of ten seconds."""

HIDE: Final = """
() => {
  const style = document.createElement("style");
  style.textContent =
    "#reward-display, #click-canvas, #sync-task-cover { display: none !important }";
  document.head.append(style);
}
"""
"""Hides the clock and the scores beside the task."""

UTTERANCE: Final = """
() => {
  const said = core.getUtterance();
  return said.utterance === undefined ? said : said.utterance;
}
"""

CONTENT: Final = """
() => {
  const said = core.getUtterance();
  return [said.utterance === undefined ? said : said.utterance,
          document.getElementById("area").innerText].join("\\n");
}
"""
"""The instruction and the text of the page: what distinguishes two tasks."""

CONTENTS: Final = f"""
seeds => seeds.map(seed => {{
  ({START.strip()})(seed);
  const content = ({CONTENT.strip()})();
  core.endEpisode(0);
  return content;
}})
"""

READY: Final = "() => WOB_TASK_READY"
OUTCOME: Final = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"
"""Whether the episode has ended, and its reward in [-1, 1] without the deduction for time."""


@cache
def pages() -> dict[str, Path]:
    """The file of each page, by name. (The pages of FlightWoB need a server and are left out.)"""
    folder = Path(str(files("miniwob"))) / "html" / "miniwob"
    return {path.stem: path for path in sorted(folder.glob("*.html"))}


def page_url(task: str) -> str:
    """The address of a page. Raises `TaskError` for an unknown name."""
    if task not in pages():
        known = ", ".join(pages())
        raise TaskError(f"miniwob.options.tasks: no page is called {task!r}; known are {known}")
    return pages()[task].as_uri()


def task_id(task: str, content: str) -> str:
    """The id of a task: a hash of its page, instruction and texts."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    return content_id(NAME, {"task": task, "content": digest})
