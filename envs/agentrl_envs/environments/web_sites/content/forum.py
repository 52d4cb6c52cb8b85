"""Content of the forum: boards, posts, comments, votes and subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentrl_envs.environments.web_sites.content.words import ADJECTIVES, draws, people

BOARDS = {
    "gardening": ("tomatoes", "roses", "compost", "seeds", "tools", "ponds", "hedges", "soil"),
    "cooking": ("bread", "soup", "noodles", "spices", "cakes", "ovens", "cheese", "beans"),
    "cycling": ("tyres", "brakes", "routes", "helmets", "chains", "lights", "races", "gears"),
    "music": ("guitars", "drums", "choirs", "violins", "records", "pianos", "concerts", "songs"),
    "books": ("novels", "poems", "libraries", "diaries", "maps", "letters", "covers", "plays"),
}
"""Subjects of the posts of each board."""

OPENINGS = ("question about", "my guide to", "photos of", "help with", "news about")
REPLIES = (
    "thank you for this",
    "i do not agree",
    "where did you find it",
    "this worked for me",
    "please tell us more",
)

POSTS_PER_BOARD = 8
AUTHORS = 10
FIRST_POST = 101


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    author: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    number: int
    board: str
    title: str
    body: str
    author: str
    votes: int
    comments: tuple[Comment, ...]
    upvoted: bool = False
    """Keyed by the session's user."""


@dataclass(slots=True, kw_only=True)
class Forum:
    """What a session can change in the forum; see `shop.Shop`."""

    posts: dict[int, Post]
    """Sorted by number, ascending."""
    subscriptions: dict[str, None]
    """Boards, in the order in which they were subscribed to."""

    def copy(self) -> Forum:
        return Forum(posts=dict(self.posts), subscriptions=dict(self.subscriptions))

    def of_board(self, board: str) -> list[Post]:
        return [post for post in self.posts.values() if post.board == board]


def generate_forum(random: Random) -> Forum:
    """40 posts in five boards, each with up to three comments."""
    authors = people(random, AUTHORS)
    posts: dict[int, Post] = {}
    for board, subjects in BOARDS.items():
        titles = draws(random, OPENINGS, ADJECTIVES, subjects)
        for votes in random.sample(range(100), POSTS_PER_BOARD):
            number = FIRST_POST + len(posts)
            title = next(titles)
            posts[number] = Post(
                number=number,
                board=board,
                title=title,
                body=f"here is what i know about {title.split()[-1]}",
                author=random.choice(authors),
                votes=votes,
                comments=tuple(
                    Comment(author=author, text=random.choice(REPLIES))
                    for author in random.sample(authors, random.randint(0, 3))
                ),
            )
    return Forum(posts=posts, subscriptions={})
