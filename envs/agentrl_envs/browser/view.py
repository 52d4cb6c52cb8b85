"""What a session shows."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_envs.browser.accessibility import Element


@dataclass(frozen=True, slots=True)
class View:
    """The tabs, and the elements of the current one."""

    url: str
    titles: tuple[str, ...]
    current: int
    """Index of the current tab."""
    elements: tuple[Element, ...]
    above: bool
    """Whether the page goes on above the viewport."""
    below: bool
    has_back: bool
    """Whether there is a page to go back to."""
