"""Tasks in the forum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as pairs

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.content.forum import BOARDS, FIRST_POST
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import Click, Fill, OneSite, SiteTask, base

SITE = "reddit"
BASE = base(SITE)
task = OneSite(SITE).task
COMMENTS = ("thank you", "well done", "not true")
TITLES = ("good morning", "a short story", "my first post")


def open_listed(state: State) -> Iterator[SiteTask]:
    """One click: a post in the list of its board."""
    for post in state.forum.posts.values():
        yield task(
            "forum/open-listed",
            "open the post {{title}}",
            {"title": post.title},
            [Click(post.title)],
            start=f"{BASE}/board/{post.board}",
            url=f"{BASE}/post/{post.number}",
        )


def open_post(state: State) -> Iterator[SiteTask]:
    """Two clicks: board and post."""
    for post in state.forum.posts.values():
        yield task(
            "forum/open-post",
            "open the post {{title}} in {{board}}",
            {"title": post.title, "board": post.board},
            [Click(post.board), Click(post.title)],
            url=f"{BASE}/post/{post.number}",
        )


def tell_author(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer."""
    for post in state.forum.posts.values():
        yield task(
            "forum/tell-author",
            "who wrote the post {{title}} in {{board}} ?",
            {"title": post.title, "board": post.board},
            [Click(post.board), Click(post.title)],
            answer=post.author,
        )


def tell_top(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer: the first in the order of votes."""
    for board in BOARDS:
        top = max(state.forum.of_board(board), key=lambda post: post.votes)
        yield task(
            "forum/tell-top",
            "which post in {{board}} has most votes ?",
            {"board": board},
            [Click(board), Click("Sort by votes")],
            answer=top.title,
        )


def open_top(state: State) -> Iterator[SiteTask]:
    """Three clicks and an answer: the first in the order of votes, and its author."""
    for board in BOARDS:
        top = max(state.forum.of_board(board), key=lambda post: post.votes)
        yield task(
            "forum/open-top",
            "open the post in {{board}} that has most votes and say who wrote it",
            {"board": board},
            [Click(board), Click("Sort by votes"), Click(top.title)],
            answer=top.author,
            url=f"{BASE}/post/{top.number}",
        )


def subscribe(state: State) -> Iterator[SiteTask]:
    """Two clicks."""
    del state
    for board in BOARDS:
        yield task(
            "forum/subscribe",
            "subscribe to the board {{board}}",
            {"board": board},
            [Click(board), Click("Subscribe")],
            program=[(f"{BASE}/subscriptions", "#boards", "must_include", board)],
        )


def upvote(state: State) -> Iterator[SiteTask]:
    """Three clicks."""
    for post in state.forum.posts.values():
        yield task(
            "forum/upvote",
            "upvote the post {{title}} in {{board}}",
            {"title": post.title, "board": post.board},
            [Click(post.board), Click(post.title), Click("Upvote")],
            program=[(f"{BASE}/post/{post.number}", "#votes", "exact_match", str(post.votes + 1))],
        )


def comment(state: State) -> Iterator[SiteTask]:
    """Four moves."""
    for post, text in pairs(state.forum.posts.values(), COMMENTS):
        yield task(
            "forum/comment",
            "comment {{text}} on the post {{title}} in {{board}}",
            {"text": text, "title": post.title, "board": post.board},
            [
                Click(post.board),
                Click(post.title),
                Fill("Comment", text),
                Click("Send comment"),
            ],
            program=[
                (
                    f"{BASE}/post/{post.number}",
                    "#comments",
                    "must_include",
                    f"{ACCOUNTS[SITE].username}: {text}",
                )
            ],
        )


def write(state: State) -> Iterator[SiteTask]:
    """Five moves: board, new post, title, text, create. The page at the end is checked too."""
    page = f"{BASE}/post/{FIRST_POST + len(state.forum.posts)}"
    for board, title, text in pairs(BOARDS, TITLES, COMMENTS):
        yield task(
            "forum/write-post",
            "write a post in {{board}} with the title {{title}} and the text {{text}}",
            {"board": board, "title": title, "text": text},
            [
                Click(board),
                Click("Write a post"),
                Fill("Title", title),
                Fill("Text", text),
                Click("Create post"),
            ],
            url=page,
            program=[
                (page, "h1", "exact_match", title),
                (page, "#body", "exact_match", text),
                (page, "#board", "exact_match", board),
            ],
        )


TEMPLATES = (
    open_listed,
    open_post,
    tell_author,
    tell_top,
    open_top,
    subscribe,
    upvote,
    comment,
    write,
)
