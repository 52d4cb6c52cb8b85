"""One MiniWoB++ session."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from agentrl_envs.browser.actions import Action, Click, Hover, Press, Scroll, Stop, Type, spell
from agentrl_envs.browser.perform import perform
from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.miniwob.options import MiniWobOptions
from agentrl_envs.environments.miniwob.pages import (
    CONTENT,
    HIDE,
    NAME,
    OUTCOME,
    READY,
    START,
    UTTERANCE,
    page_url,
    pages,
    task_id,
)
from agentrl_envs.environments.web.scene import NOTHING, Refusal, Scene, TextForm
from agentrl_envs.errors import SessionError, TaskError

T = TypeVar("T")

WIDTH, HEIGHT = 400, 400
"""The viewport in CSS pixels. A task is 160 wide and 210 high."""

START_TIMEOUT_S = 60.0
"""Added to the time limit of a reset, which may start the browser."""

ON_THE_PAGE = (Click, Hover, Type, Press, Scroll, Stop)
"""The actions of these tasks: they have one page."""


class MiniWobEnvironment:
    """Plays one task at a time. The score is the page's own reward, where it is positive."""

    def __init__(self, thread: BrowserThread, form: TextForm, options: MiniWobOptions) -> None:
        self._thread = thread
        self._form = form
        self._options = options
        self._browser = BrowserSession(thread, WIDTH, HEIGHT)
        self._scene: Scene | None = None
        self._menu: Mapping[str, Action] = {}
        self._turns = 0
        self._raw: float | None = None
        self._truncated = False

    def reset(self, task: Task) -> Observation:
        """Load the page and start the seed's episode. Raises `TaskError` if the page does not show
        the content that the task id is a hash of."""
        self._scene = None
        name, seed = task.payload.get("task"), task.payload.get("seed")
        if name not in pages() or not isinstance(seed, int) or isinstance(seed, bool):
            raise TaskError(
                f"task {task.id}: payload {dict(task.payload)!r} is not a {NAME} task; it must "
                "hold the name of a page as task, and a seed"
            )
        limit = self._options.timeout_s + START_TIMEOUT_S
        self._scene, found = self._run(self._begin(str(name), seed), limit)
        if found != task.id:
            self._scene = None
            raise TaskError(
                f"task {task.id}: {name} with seed {seed} is {found}; use the version of miniwob "
                "that dealt the task"
            )
        self._turns, self._raw, self._truncated = 0, None, False
        self._menu = self._form.menu(self._scene)
        return self._form.observation(self._scene, self._menu, "")

    def step(self, action: str) -> Step:
        """Carry out the action in a reply."""
        scene = self._scene
        if scene is None:
            raise SessionError("step before reset, or after the session was lost")
        if self._raw is not None:
            return self._told(scene, "The episode has ended.", wellformed=False)
        self._turns += 1
        wanted = self._form.parse(action, self._menu)
        if isinstance(wanted, Refusal):
            return self._finish(scene, wanted.message, wellformed=False)
        if not isinstance(wanted, ON_THE_PAGE):
            return self._finish(scene, "This task has one page and no other.", wellformed=False)
        if isinstance(wanted, Stop):
            self._raw = 0.0
            return self._told(scene, "", wellformed=True)
        work = self._act(scene, wanted)
        message, scene, done, raw = self._run(work, self._options.timeout_s)
        self._scene, self._menu = scene, self._form.menu(scene)
        self._raw = raw if done else None
        return self._finish(scene, message, wellformed=not message, reward=self._score())

    def close(self) -> None:
        """Close the session's tab."""
        self._scene = None
        try:
            self._thread.run(self._browser.end(), self._options.timeout_s)
        except SessionError:
            return  # the browser is gone, and the tab with it

    def _score(self) -> float:
        return min(max(self._raw or 0.0, 0.0), 1.0)

    def _finish(self, scene: Scene, message: str, *, wellformed: bool, reward: float = 0.0) -> Step:
        """The step of a turn that was not refused for the end; ends the episode if it was the
        last."""
        if self._raw is None and self._turns >= self._options.turn_limit:
            self._truncated, self._raw = True, 0.0
        return self._told(scene, message, wellformed=wellformed, reward=reward)

    def _told(self, scene: Scene, message: str, *, wellformed: bool, reward: float = 0.0) -> Step:
        lines = "\n".join((scene.intent, *(each.line() for each in scene.elements)))
        return Step(
            observation=self._form.observation(scene, self._menu, message),
            reward=reward,
            terminated=self._raw is not None and not self._truncated,
            truncated=self._truncated,
            wellformed=wellformed,
            success=self._score() == 1.0,
            raw_score=self._raw or 0.0,
            state=hashlib.sha256(lines.encode()).hexdigest()[:16],
        )

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        try:
            return self._thread.run(work, timeout_s)
        except SessionError as error:
            self._scene = None
            self._browser.lose(str(error))
            raise

    # On the browser's event loop

    async def _begin(self, name: str, seed: int) -> tuple[Scene, str]:
        await self._browser.begin([page_url(name)], None)
        page = self._browser.page
        await page.evaluate(HIDE)
        await page.evaluate(START, seed)
        await page.wait_for_function(READY)
        found = task_id(name, await page.evaluate(CONTENT))
        await self._browser.settle()
        return await self._look(name, str(await page.evaluate(UTTERANCE)), NOTHING), found

    async def _act(self, scene: Scene, action: Action) -> tuple[str, Scene, bool, float]:
        message = await perform(self._browser, action, scene.view, replace_text=True)
        await self._browser.settle()
        done, raw = await self._browser.page.evaluate(OUTCOME)
        seen = await self._look(scene.sites[0], scene.intent, spell(action))
        return message, seen, bool(done), float(raw)

    async def _look(self, name: str, utterance: str, previous: str) -> Scene:
        return Scene(
            intent=utterance,
            phrases=(),
            sites=(name,),
            wants_answer=False,
            view=await self._browser.view(),
            url=f"http://{NAME}.example/{name}",
            previous=previous,
        )
