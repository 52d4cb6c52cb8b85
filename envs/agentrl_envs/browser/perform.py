"""Carrying out an action in the current tab."""

from __future__ import annotations

from typing import Final

from playwright.async_api import Error

from agentrl_envs.browser.accessibility import Element
from agentrl_envs.browser.actions import (
    Action,
    Click,
    Goto,
    Hover,
    Plain,
    Press,
    Scroll,
    TabFocus,
    Type,
)
from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import first_line
from agentrl_envs.browser.view import View

SCROLL: Final = """
sign => (document.scrollingElement || document.body).scrollBy(
  {top: sign * window.innerHeight, behavior: "instant"})
"""

CHOOSE: Final = """
function () {
  const list = this.closest("select");
  if (list === null) { this.click(); return; }
  this.selected = list.multiple ? !this.selected : true;
  list.dispatchEvent(new Event("input", {bubbles: true}));
  list.dispatchEvent(new Event("change", {bubbles: true}));
}
"""
"""Chooses an option: the popup of a drop-down list is no part of the page."""


async def perform(
    session: BrowserSession, action: Action, view: View, *, replace_text: bool
) -> str:
    """Carry out `action`, an action on what `view` shows. Returns an empty string, or why it was
    not carried out. `replace_text`: typing replaces the text of a field; else it is appended.

    Does not wait for its effect: see `BrowserSession.settle`."""
    match action:
        case Click(number) | Hover(number) | Type(number):
            element = next((each for each in view.elements if each.id == number), None)
            if element is None:
                return f"no element [{number}] is on the page; use a number of the observation"
            await _use(session, action, element, replace_text=replace_text)
        case Press(keys):
            try:
                await session.page.keyboard.press(_portable(keys))
            except Error as error:
                return f"press: {first_line(error).partition(': ')[2]}"
        case Scroll(direction):
            await session.page.evaluate(SCROLL, 1 if direction == "down" else -1)
        case Goto(url):
            await session.visit(url)
        case TabFocus(tab):
            if tab >= len(session.pages):
                return f"tab_focus: there is no tab {tab}; the last is {len(session.pages) - 1}"
            session.current = tab
            await session.page.bring_to_front()
        case Plain(name):
            return await _plain(session, name)
    return ""


async def _use(
    session: BrowserSession, action: Click | Hover | Type, element: Element, *, replace_text: bool
) -> None:
    x, y = element.box.centre(session.width, session.height)
    page = session.page
    if isinstance(action, Hover):
        await page.mouse.move(x, y)
    elif isinstance(action, Click) and element.role == "option":
        await session.call_on(element, CHOOSE)
    else:
        await page.mouse.click(x, y)
    if isinstance(action, Type):
        if replace_text:
            await page.keyboard.press("Control+a")
        await page.keyboard.insert_text(action.text)
        if action.enter:
            await page.keyboard.press("Enter")


async def _plain(session: BrowserSession, name: str) -> str:
    if name == "new_tab":
        await session.open_tab()
    elif name == "close_tab":
        await session.close_tab()
    else:
        step = -1 if name == "go_back" else 1
        if not await session.go(step):
            return f"{name}: there is no page to go to"
    return ""


def _portable(keys: str) -> str:
    """Playwright's name of a key combination: models also say `ctrl+a` and `Meta+a`."""
    names = {"ctrl": "Control", "cmd": "Control", "meta": "Control", "del": "Delete"}
    names |= {"esc": "Escape", "return": "Enter", "space": "Space"}
    return "+".join(names.get(key.strip().lower(), key.strip()) for key in keys.split("+"))
