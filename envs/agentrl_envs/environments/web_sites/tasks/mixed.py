"""Tasks that span two sites."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as pairs

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.content.forum import BOARDS, FIRST_POST
from agentrl_envs.environments.web_sites.content.map import Place
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import (
    Click,
    Fill,
    Goto,
    Move,
    SiteTask,
    base,
    site_task,
)

MAP, WIKI, SHOP, FORUM, CODE = (
    base(site) for site in ("map", "wikipedia", "shopping", "reddit", "gitlab")
)


def _museums(state: State) -> Iterator[tuple[str, Place, list[Move]]]:
    """The architect of each museum, the museum's place on the map, and the five moves from the
    wiki, which names the museum by its architect, to that place."""
    for article in state.wiki.values():
        if article.topic == "museums":
            architect, place = article.fact("architect"), state.town.places[article.slug]
            moves: list[Move] = [
                Click("people"),
                Click(architect),
                Goto(f"{MAP}/"),
                Click("museum"),
                Click(place.name),
            ]
            yield architect, place, moves


def tell_phone_of_museum(state: State) -> Iterator[SiteTask]:
    """Five moves: the wiki tells the museum, the map its phone number."""
    for architect, place, moves in _museums(state):
        yield site_task(
            "mixed/tell-phone-of-museum",
            ["map", "wikipedia"],
            f"{WIKI}/",
            "what is the phone number of the museum whose architect was {{architect}} ?",
            {"architect": architect},
            moves,
            answer=str(place.phone),
        )


def save_museum(state: State) -> Iterator[SiteTask]:
    """Six moves: the wiki tells the museum, the map saves it."""
    for architect, place, moves in _museums(state):
        yield site_task(
            "mixed/save-museum",
            ["map", "wikipedia"],
            f"{WIKI}/",
            "save the museum on the map whose architect was {{architect}}",
            {"architect": architect},
            [*moves, Click("Save place")],
            url=f"{MAP}/place/{place.slug}",
            program=[(f"{MAP}/saved", "#places", "must_include", place.name)],
        )


def post_price(state: State) -> Iterator[SiteTask]:
    """Seven moves: the shop tells the price, the forum gets it."""
    page = f"{FORUM}/post/{FIRST_POST + len(state.forum.posts)}"
    for product, board in pairs(state.shop.products.values(), BOARDS):
        price = f"${product.price}"
        yield site_task(
            "mixed/post-price",
            ["shopping", "reddit"],
            f"{SHOP}/",
            "write a post in {{board}} whose title is {{product}} and whose text is the price "
            "of the {{product}} in {{category}}",
            {"board": board, "product": product.name, "category": product.category},
            [
                Click(product.category),
                Goto(f"{FORUM}/"),
                Click(board),
                Click("Write a post"),
                Fill("Title", product.name),
                Fill("Text", price),
                Click("Create post"),
            ],
            program=[
                (page, "h1", "exact_match", product.name),
                (page, "#body", "exact_match", price),
                (page, "#board", "exact_match", board),
            ],
        )


def comment_license(state: State) -> Iterator[SiteTask]:
    """Six moves: the code host tells the license, the forum gets it."""
    posts = [post for post in state.forum.posts.values() if post.board == "books"]
    for project, post in pairs(state.code_host.projects.values(), posts):
        yield site_task(
            "mixed/comment-license",
            ["gitlab", "reddit"],
            f"{CODE}/",
            "comment the license of the {{project}} on the forum post {{title}} in {{board}}",
            {"project": project.name, "title": post.title, "board": post.board},
            [
                Click(project.name),
                Goto(f"{FORUM}/"),
                Click(post.board),
                Click(post.title),
                Fill("Comment", project.license),
                Click("Send comment"),
            ],
            program=[
                (
                    f"{FORUM}/post/{post.number}",
                    "#comments",
                    "must_include",
                    f"{ACCOUNTS['reddit'].username}: {project.license}",
                )
            ],
        )


TEMPLATES = (tell_phone_of_museum, save_museum, post_price, comment_license)
