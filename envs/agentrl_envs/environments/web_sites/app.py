"""The sites as one ASGI application, each under a path prefix of its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from urllib.parse import parse_qsl, quote

from starlette import routing
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from agentrl_envs.environments.web_sites import login, selection
from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.pages import ALL_SITES
from agentrl_envs.environments.web_sites.rendering import render
from agentrl_envs.environments.web_sites.sessions import (
    CAPACITY,
    COOKIE,
    LostStateError,
    Sessions,
)
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.visit import (
    LONGEST_TEXT,
    Page,
    Redirect,
    Route,
    Site,
    Visit,
    missing,
)

LARGEST_BODY = 16 * 1024
"""Bytes of a POST."""

_STYLESHEET = (
    files("agentrl_envs.environments.web_sites").joinpath("templates/site.css").read_text()
)

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(seed: int = 0, *, contents: int = 1, capacity: int = CAPACITY) -> Starlette:
    """All sites, with the contents of `contents` seeds from `seed` on.

    Each browser context sees a state of its own: see `sessions` and `selection`. `GET /healthz`
    answers 200."""
    served = _Served(Sessions(capacity), range(seed, seed + contents))
    mounts = [_mount(site, served) for site in ALL_SITES]
    return Starlette(
        routes=[
            routing.Route("/", _home),
            routing.Route("/healthz", _health),
            routing.Route("/site.css", _stylesheet),
            *mounts,
        ],
        exception_handlers={ClientDisconnect: _left},
    )


class _Served:
    """What the pages of all sites show."""

    def __init__(self, sessions: Sessions, contents: range) -> None:
        self._sessions = sessions
        self._contents = contents

    def has(self, content: int) -> bool:
        return content in self._contents

    def read(self, request: Request) -> State:
        """The state of the request's session. Raises `LostStateError` if it is gone."""
        return self._sessions.read(request.cookies.get(COOKIE), self._content(request))

    def write(self, request: Request) -> tuple[str, State]:
        """The id and the state of the request's session, which is about to be changed. Raises
        `LostStateError` if it is gone."""
        return self._sessions.write(request.cookies.get(COOKIE), self._content(request))

    def _content(self, request: Request) -> int:
        return selection.content_of(request.cookies.get(selection.COOKIE), self._contents)


async def _home(request: Request) -> Response:
    del request
    return HTMLResponse(render("home.html", {"sites": ALL_SITES}))


async def _health(request: Request) -> Response:
    del request
    return PlainTextResponse("ok")


async def _stylesheet(request: Request) -> Response:
    del request
    return Response(_STYLESHEET, media_type="text/css", headers={"cache-control": "max-age=3600"})


def _mount(site: Site, served: _Served) -> routing.Mount:
    endpoints = []
    if site.name in ACCOUNTS:
        endpoints += [
            routing.Route("/login", _login_page(site, served), methods=["GET"]),
            routing.Route("/login", _login(site, served), methods=["POST"]),
            routing.Route("/logout", _logout(site), methods=["POST"]),
        ]
    endpoints += [
        routing.Route(route.path, _endpoint(site, route, served), methods=[route.method])
        for route in site.routes
    ]
    select = routing.Route("/content/{content:int}/{rest:path}", _select(site, served))
    endpoints += [select, routing.Route("/{rest:path}", _no_page(site, served), methods=["GET"])]
    return routing.Mount(f"/{site.name}", routes=endpoints)


def _endpoint(site: Site, route: Route, served: _Served) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        user = _user(site, request)
        if route.login and not user:
            here = request.url.path.removeprefix(f"/{site.name}") if route.method == "GET" else "/"
            return _redirect(site, f"/login?next={quote(here)}")
        form = await _form(request) if route.method == "POST" else {}
        key = None
        try:
            if route.method == "POST":
                key, state = served.write(request)
            else:
                state = served.read(request)
        except LostStateError:
            return _lost()
        visit = Visit(
            state=state,
            path=request.path_params,
            query=request.query_params,
            form=form,
            user=user,
        )
        response = _response(site, route.handler(visit), user, state)
        if key is not None:
            response.set_cookie(COOKIE, key, httponly=True, samesite="lax")
        return response

    return endpoint


def _login_page(site: Site, served: _Served) -> Endpoint:
    async def login_page(request: Request) -> Response:
        page = Page("login.html", {"next": request.query_params.get("next", "/"), "wrong": False})
        return _shown(site, page, request, served)

    return login_page


def _login(site: Site, served: _Served) -> Endpoint:
    async def sign_in(request: Request) -> Response:
        form = await _form(request)
        cookie = login.sign_in(site.name, form.get("username", ""), form.get("password", ""))
        target = form.get("next", "/")
        if cookie is None:
            page = Page("login.html", {"next": target, "wrong": True}, 401)
            return _shown(site, page, request, served)
        response = _redirect(site, target if target.startswith("/") else "/")
        response.set_cookie(login.cookie_name(site.name), cookie, httponly=True, samesite="lax")
        return response

    return sign_in


def _logout(site: Site) -> Endpoint:
    async def sign_out(request: Request) -> Response:
        del request
        response = _redirect(site, "/")
        response.delete_cookie(login.cookie_name(site.name))
        return response

    return sign_out


def _select(site: Site, served: _Served) -> Endpoint:
    async def select(request: Request) -> Response:
        content = request.path_params["content"]
        if not served.has(content):
            return _shown(site, missing("page"), request, served)
        response = _redirect(site, f"/{request.path_params['rest']}")
        response.set_cookie(selection.COOKIE, str(content), httponly=True, samesite="lax")
        response.delete_cookie(COOKIE)
        return response

    return select


def _no_page(site: Site, served: _Served) -> Endpoint:
    async def no_page(request: Request) -> Response:
        return _shown(site, missing("page"), request, served)

    return no_page


def _shown(site: Site, page: Page, request: Request, served: _Served) -> Response:
    """A page that is no function of the session's state, except for its header."""
    try:
        state = served.read(request)
    except LostStateError:
        return _lost()
    return _response(site, page, _user(site, request), state)


def _response(site: Site, result: Page | Redirect, user: str, state: State) -> Response:
    if isinstance(result, Redirect):
        return _redirect(site, result.path)
    shared = {
        "site": site,
        "base": f"/{site.name}",
        "user": user,
        "has_login": site.name in ACCOUNTS,
        "in_cart": sum(state.shop.cart.values()),
    }
    text = render(result.template, {**shared, **result.values})
    return HTMLResponse(text, result.status, headers={"cache-control": "no-store"})


def _redirect(site: Site, path: str) -> Response:
    return RedirectResponse(f"/{site.name}{path}", 303)


def _user(site: Site, request: Request) -> str:
    return login.signed_in(site.name, request.cookies.get(login.cookie_name(site.name)))


def _lost() -> Response:
    """The context cannot go on; an environment reports the episode as lost."""
    text = "The state of this session is gone. Open a new browser context."
    return PlainTextResponse(text, 503)


async def _left(request: Request, error: Exception) -> Response:
    """The browser left before its form was complete; nobody receives the response."""
    del request, error
    return Response(status_code=499)


async def _form(request: Request) -> dict[str, str]:
    """Fields of a URL-encoded body."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"the form is larger than {LARGEST_BODY} bytes")
    pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: " ".join(value.split())[:LONGEST_TEXT] for name, value in pairs}
