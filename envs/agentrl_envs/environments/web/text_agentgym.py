"""AgentGym's text form: WebArena's observation, and an action between triple backticks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentrl_envs.browser.actions import EXAMPLES, Action, parse_action
from agentrl_envs.env import Observation
from agentrl_envs.environments.web.scene import Refusal, Scene

_FENCE = re.compile(r"```(?:[a-z]*\n)?((?:.|\n)*?)```")

_NO_FENCE = (
    "Cannot parse action from response. Your action should be inside triple backticks (```). "
    "Please adjust accordingly."
)

_INSTRUCTIONS = """\
You control a web browser and work towards an objective. After each action you receive:
- the open tabs and the accessibility tree of the part of the page that is in view, one element a \
line: [id] role 'name' and its properties;
- URL: the address of the page;
- OBJECTIVE: what you are to achieve;
- PREVIOUS ACTION: what you did last.

Actions on the page:
- click [id]: click an element. An option of a drop-down list is chosen by a click on it.
- type [id] [content] [press_enter]: type content into a field. Enter is pressed afterwards, \
unless press_enter is 0.
- hover [id]: move the pointer over an element.
- press [keys]: press a key or a combination, such as Control+a.
- scroll [down] or scroll [up]: scroll by one screen.
Actions on tabs and addresses:
- new_tab, tab_focus [index], close_tab
- goto [url], go_back, go_forward
The end:
- stop [answer]: the objective is achieved, or cannot be. Give the answer if the objective asks \
for one; if it cannot be achieved, answer N/A.

Rules: give one action at a time, and only ids that the page shows now. Think first, then write \
the action between triple backticks, like this:
In summary, the next action I will perform is ```click [12]```"""


class AgentGymForm:
    """The `agentgym` text form. `strict`: AgentGym's rules, see `WebOptions.compat`."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def instructions(self) -> str:
        return _INSTRUCTIONS

    def vocabulary(self) -> None:
        return None

    def menu(self, scene: Scene) -> Mapping[str, Action]:
        return {}

    def observation(self, scene: Scene, menu: Mapping[str, Action], message: str) -> Observation:
        view = scene.view
        tabs = " | ".join(
            f"Tab {index}{' (current)' if index == view.current else ''}: {title}"
            for index, title in enumerate(view.titles)
        )
        tree = "\n".join("\t" * each.depth + each.line() for each in view.elements)
        note = f"{message}\n" if message else ""
        text = (
            f"{note}OBSERVATION:\n{tabs}\n\n{tree}\nURL: {scene.url}\nOBJECTIVE: {scene.intent}\n"
            f"PREVIOUS ACTION: {scene.previous}"
        )
        return Observation(text=text)

    def parse(self, reply: str, menu: Mapping[str, Action]) -> Action | Refusal:
        fenced = [each.strip() for each in _FENCE.findall(reply)]
        if not fenced and not self._strict:
            fenced = [reply]
        if not fenced:
            return Refusal(_NO_FENCE)
        if len(set(fenced)) > 1 and not self._strict:
            return Refusal("Several actions are between triple backticks. Please give one.")
        action = parse_action(fenced[0])
        if action is None:
            what = _NO_FENCE if fenced == [reply] else f"{fenced[0][:80]!r} is not an action."
            return Refusal(f"{what} Actions are: {EXAMPLES}.")
        return action
