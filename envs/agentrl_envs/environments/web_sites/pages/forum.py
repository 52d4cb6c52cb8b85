"""Pages of the forum."""

from __future__ import annotations

from dataclasses import replace

from agentrl_envs.environments.web_sites.content.forum import BOARDS, Comment, Post
from agentrl_envs.environments.web_sites.visit import (
    Page,
    Redirect,
    Route,
    Site,
    Visit,
    missing,
    refused,
    search_results,
    whole_number,
)


def home(visit: Visit) -> Page:
    forum = visit.state.forum
    boards = [(board, len(forum.of_board(board))) for board in BOARDS]
    return Page("forum/home.html", {"boards": boards})


def board(visit: Visit) -> Page:
    name, forum = visit.path["board"], visit.state.forum
    if name not in BOARDS:
        return missing("board")
    posts = forum.of_board(name)[::-1]
    by_votes = visit.query.get("sort") == "votes"
    if by_votes:
        posts = sorted(posts, key=lambda post: -post.votes)
    values = {
        "board": name,
        "posts": posts[:12],
        "by_votes": by_votes,
        "subscribed": name in forum.subscriptions,
    }
    return Page("forum/board.html", values)


def subscribe(visit: Visit) -> Page | Redirect:
    name, subscriptions = visit.path["board"], visit.state.forum.subscriptions
    if name not in BOARDS:
        return missing("board")
    if name in subscriptions:
        del subscriptions[name]
    else:
        subscriptions[name] = None
    return Redirect(f"/board/{name}")


def subscriptions(visit: Visit) -> Page:
    return Page("forum/subscriptions.html", {"boards": list(visit.state.forum.subscriptions)})


def post(visit: Visit) -> Page:
    shown = _post(visit)
    return Page("forum/post.html", {"post": shown}) if shown else missing("post")


def upvote(visit: Visit) -> Page | Redirect:
    shown = _post(visit)
    if shown is None:
        return missing("post")
    votes = shown.votes + (-1 if shown.upvoted else 1)
    changed = replace(shown, votes=votes, upvoted=not shown.upvoted)
    visit.state.forum.posts[shown.number] = changed
    return Redirect(f"/post/{shown.number}")


def comment(visit: Visit) -> Page | Redirect:
    shown = _post(visit)
    if shown is None:
        return missing("post")
    text = visit.form.get("comment", "")
    if not text:
        return refused("The comment must not be empty.")
    added = Comment(author=visit.user, text=text)
    changed = replace(shown, comments=(*shown.comments, added))
    visit.state.forum.posts[shown.number] = changed
    return Redirect(f"/post/{shown.number}")


def new_post(visit: Visit) -> Page:
    chosen = visit.query.get("board", "")
    return Page("forum/new_post.html", {"boards": list(BOARDS), "chosen": chosen})


def create_post(visit: Visit) -> Page | Redirect:
    form, posts = visit.form, visit.state.forum.posts
    if form.get("board") not in BOARDS or not form.get("title"):
        return refused("A post needs a board and a title.")
    number = max(posts) + 1
    posts[number] = Post(
        number=number,
        board=form["board"],
        title=form["title"],
        body=form.get("text", ""),
        author=visit.user,
        votes=1,
        comments=(),
        upvoted=True,
    )
    return Redirect(f"/post/{number}")


def author(visit: Visit) -> Page:
    name = visit.path["slug"].replace("-", " ")
    posts = [each for each in visit.state.forum.posts.values() if each.author == name]
    if not posts and name != visit.user:
        return missing("author")
    return Page("forum/author.html", {"author": name, "posts": posts[::-1]})


def search(visit: Visit) -> Page:
    posts = ((each.title, each) for each in visit.state.forum.posts.values())
    return search_results(visit, "forum/search.html", "posts", posts)


def _post(visit: Visit) -> Post | None:
    number = whole_number(visit.path["number"], 0, 999_999)
    return None if number is None else visit.state.forum.posts.get(number)


SITE = Site(
    name="reddit",
    title="Village Forum",
    links={"Boards": "/", "New post": "/new", "Subscriptions": "/subscriptions"},
    search="Search posts",
    routes=(
        Route("GET", "/", home),
        Route("GET", "/board/{board}", board),
        Route("POST", "/board/{board}/subscribe", subscribe, login=True),
        Route("GET", "/subscriptions", subscriptions, login=True),
        Route("GET", "/post/{number}", post),
        Route("POST", "/post/{number}/upvote", upvote, login=True),
        Route("POST", "/post/{number}/comments", comment, login=True),
        Route("GET", "/new", new_post, login=True),
        Route("POST", "/new", create_post, login=True),
        Route("GET", "/author/{slug}", author),
        Route("GET", "/search", search),
    ),
)
