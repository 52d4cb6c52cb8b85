"""One session of web navigation."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from playwright.async_api import Error

from agentrl_envs.browser.actions import Action, Goto, Stop, spell
from agentrl_envs.browser.devtools import EMPTY
from agentrl_envs.browser.perform import perform
from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.web.evaluators import Judge, grade
from agentrl_envs.environments.web.locators import READ
from agentrl_envs.environments.web.locators import Step as LocatorStep
from agentrl_envs.environments.web.login import Login, Logins, state_of
from agentrl_envs.environments.web.options import WebOptions
from agentrl_envs.environments.web.scene import NOTHING, Refusal, Scene, TextForm
from agentrl_envs.environments.web.sites import Addresses, unreachable
from agentrl_envs.environments.web.task_config import TaskConfig, config_of, unsupported
from agentrl_envs.errors import SessionError, TaskError

T = TypeVar("T")

Goals = Mapping[str, tuple[str, ...]]
"""Intents by the public address of the page that solves them."""

WIDTH, HEIGHT = 1280, 720
"""WebArena's viewport, in CSS pixels."""

START_TIMEOUT_S = 60.0
"""Added to the time limit of a reset, which may start the browser and log in."""


class WebEnvironment:
    """Plays one task at a time in a browser context of its own."""

    def __init__(
        self,
        thread: BrowserThread,
        addresses: Addresses,
        logins: Logins,
        form: TextForm,
        judge: Judge | None,
        options: WebOptions,
        goals_of: Callable[[TaskConfig], Goals],
    ) -> None:
        self._thread = thread
        self._addresses = addresses
        self._logins = logins
        self._form = form
        self._judge = judge
        self._options = options
        self._goals_of = goals_of
        self._goals: Goals = {}
        self._strict = options.compat == "agentgym"
        self._browser = BrowserSession(thread, WIDTH, HEIGHT, most=options.sessions)
        self._config: TaskConfig | None = None
        self._logged_in: tuple[Login, ...] = ()
        self._scene: Scene | None = None
        self._menu: Mapping[str, Action] = {}
        self._turns = 0
        self._score: float | None = None
        self._truncated = False

    def reset(self, task: Task) -> Observation:
        """Open the start pages, logged in if the task is. Raises `TaskError` for a payload that is
        not the task's, and `SessionError` if a site does not answer."""
        self._scene = None
        config = config_of(task)
        if unknown := set(config.sites) - set(self._addresses.sites):
            raise TaskError(
                f"task {task.id}: site {min(unknown)!r} is not served here; known are "
                f"{', '.join(sorted(self._addresses.sites))}; add it to web.options.sites"
            )
        reason = unsupported(config, judge=self._judge is not None)
        if reason := reason or unreachable(config, self._addresses):
            raise TaskError(f"task {task.id}: {reason}; or leave the task out")
        self._goals = self._goals_of(config)
        self._config, self._turns, self._score, self._truncated = config, 0, None, False
        limit = self._options.timeout_s + START_TIMEOUT_S
        self._scene = self._run(self._begin(config), limit)
        self._menu = self._form.menu(self._scene)
        return self._form.observation(self._scene, self._menu, "")

    def step(self, action: str) -> Step:
        """Carry out the action in a reply. Raises `SessionError` if the session is lost: the site
        is down, the page crashed, the browser died, or nothing answered in time."""
        scene, config = self._scene, self._config
        if scene is None or config is None:
            raise SessionError("step before reset, or after the session was lost")
        if self._score is not None:
            return self._told("The episode has ended.", wellformed=False)
        self._turns += 1
        wanted = self._form.parse(action, self._menu)
        if isinstance(wanted, Refusal):
            return self._finish(config, wanted.message, wellformed=False)
        if isinstance(wanted, Stop):
            self._score = self._graded(config, wanted.answer)
            achieved = self._goals.get(scene.url, ())
            return self._told("", wellformed=True, reward=self._score, achieved=achieved)
        if isinstance(wanted, Goto) and not self._is_inside(wanted.url):
            message = f"goto: {wanted.url[:200]} is outside the sites; they are {self._known()}"
            return self._finish(config, message, wellformed=False)
        message, self._scene = self._run(self._act(config, scene, wanted), self._options.timeout_s)
        self._menu = self._form.menu(self._scene)
        after = self._scene.url
        achieved = () if after == scene.url else self._goals.get(after, ())
        ends = self._options.end_on_page and config.asks_for_a_page
        if ends and (reward := self._graded(config, "")):
            self._score = reward
            return self._told(message, wellformed=True, reward=reward, achieved=achieved)
        return self._finish(config, message, wellformed=not message, achieved=achieved)

    def close(self) -> None:
        """Close the session's tabs."""
        self._scene = None
        try:
            self._thread.run(self._browser.end(), self._options.timeout_s)
        except SessionError:
            return  # the browser is gone, and the tabs with it

    # Answers

    def _finish(
        self,
        config: TaskConfig,
        message: str,
        *,
        wellformed: bool,
        achieved: tuple[str, ...] = (),
    ) -> Step:
        """The step of a turn that did not stop: ends the episode if it was the last."""
        reward = 0.0
        if self._turns >= self._options.turn_limit:
            self._truncated = True
            graded = self._options.grade_at_limit and not self._strict
            reward = self._score = self._graded(config, "") if graded else 0.0
        if self._strict and message.startswith("no element"):
            message = ""
        return self._told(message, wellformed=wellformed, reward=reward, achieved=achieved)

    def _told(
        self,
        message: str,
        *,
        wellformed: bool,
        reward: float = 0.0,
        achieved: tuple[str, ...] = (),
    ) -> Step:
        scene = self._scene
        if scene is None:
            raise SessionError("the session was lost")
        ended = self._score is not None
        return Step(
            observation=self._form.observation(scene, self._menu, message),
            reward=reward,
            terminated=ended and not self._truncated,
            truncated=self._truncated,
            wellformed=wellformed,
            success=self._score == 1.0,
            raw_score=self._score or 0.0,
            state=_digest(scene),
            achieved=achieved,
        )

    def _graded(self, config: TaskConfig, answer: str) -> float:
        state = _Final(self._browser)
        work = grade(config, answer, state, self._addresses, self._judge)
        return self._run(work, self._options.timeout_s + START_TIMEOUT_S)

    def _is_inside(self, url: str) -> bool:
        return self._addresses.site_of(self._addresses.real(url)) is not None

    def _known(self) -> str:
        sites = self._addresses.sites.values()
        return ", ".join(self._addresses.public(f"{url}/") for url in sites)

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The result of `work` on the browser's event loop."""
        try:
            return self._thread.run(work, timeout_s)
        except SessionError as error:
            self._scene = None
            self._browser.lose(str(error))
            raise

    # On the browser's event loop

    async def _begin(self, config: TaskConfig) -> Scene:
        self._logged_in = ()
        if not config.logs_in:
            await self._open(config, ())
        else:
            await self._open(config, await self._logins.of(config.sites))
            if await self._login_has_ended():  # the site did not know it any more
                await self._open(config, await self._logins.of(config.sites))
        return await self._look(config, NOTHING)

    async def _open(self, config: TaskConfig, logins: tuple[Login, ...]) -> None:
        urls = [self._addresses.real(url) for url in config.start_urls]
        await self._browser.begin(urls, state_of(logins) if logins else None)
        self._logged_in = logins

    async def _login_has_ended(self) -> bool:
        """Whether a site has ended a login of this session, which other sessions share."""
        if not self._logged_in or not self._logins.ended(
            self._logged_in, await self._browser.cookies()
        ):
            return False
        self._logged_in = ()
        return True

    async def _act(self, config: TaskConfig, scene: Scene, action: Action) -> tuple[str, Scene]:
        spelled = spell(action)
        if isinstance(action, Goto):
            action = Goto(self._addresses.real(action.url))
        message = await perform(self._browser, action, scene.view, replace_text=not self._strict)
        undone = await self._browser.settle()
        await self._login_has_ended()
        return undone or message, await self._look(config, spelled)

    async def _look(self, config: TaskConfig, previous: str) -> Scene:
        view = await self._browser.view()
        return Scene(
            intent=config.intent,
            phrases=config.phrases,
            sites=config.sites,
            wants_answer="string_match" in config.evaluation.eval_types,
            view=view,
            url=self._addresses.public(view.url),
            previous=previous,
        )


class _Final:
    """The browser when the agent has stopped."""

    def __init__(self, browser: BrowserSession) -> None:
        self._browser = browser

    @property
    def url(self) -> str:
        return self._browser.page.url

    async def open(self, url: str) -> None:
        if "#" in url:  # the browser only scrolls to a fragment of the page that it shows
            await self._browser.visit(EMPTY)
        await self._browser.visit(url)
        await self._browser.settle()

    async def read(self, steps: tuple[LocatorStep, ...]) -> str | None:
        page = self._browser.page
        if not steps:
            return html.unescape(await page.content())
        try:
            found = await page.evaluate(READ, [list(step) for step in steps])
        except Error:  # a selector that is no CSS
            return None
        return None if found is None else str(found)


def _digest(scene: Scene) -> str:
    """Hash of what the agent can see: the tabs and the page."""
    view = scene.view
    lines = (f"{element.depth}{element.line()}" for element in view.elements)
    scrolled = f"{view.current} {view.above} {view.below} {view.has_back}"
    text = "\n".join((scene.intent, scene.url, scrolled, *view.titles, *lines))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
