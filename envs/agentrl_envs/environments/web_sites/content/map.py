"""Content of the map: places of one town, with their addresses and the ways between them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentrl_envs.environments.web_sites.content.words import ADJECTIVES, ANIMALS, draws, slug

KINDS = ("cafe", "museum", "library", "hotel", "bakery", "pharmacy")
STREETS = ("mill street", "park street", "lake street", "church street", "bridge street")

PLACES_PER_KIND = 5
SIZE = 40
"""Blocks of the town in each direction. A block is 100 m."""

SPEEDS = {"foot": 1, "bike": 3, "car": 6}
"""Blocks a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    name: str
    kind: str
    number: int
    street: str
    phone: int
    opens: int
    """Hour of the day."""
    x: int
    """Blocks from the west."""
    y: int
    """Blocks from the north."""

    @property
    def slug(self) -> str:
        return slug(self.name)

    @property
    def address(self) -> str:
        return f"{self.number} {self.street}"


@dataclass(slots=True, kw_only=True)
class Town:
    """What a session can change in the map; see `shop.Shop`."""

    places: dict[str, Place]
    """Keyed by slug."""
    saved: dict[str, None]
    """Slugs, in the order in which they were saved."""

    def copy(self) -> Town:
        return Town(places=dict(self.places), saved=dict(self.saved))

    def of_kind(self, kind: str) -> list[Place]:
        return [place for place in self.places.values() if place.kind == kind]


def blocks(start: Place, end: Place) -> int:
    """Length of the way between two places along the streets, in blocks of 100 m."""
    return abs(start.x - end.x) + abs(start.y - end.y)


def minutes(start: Place, end: Place, by: str) -> int:
    """Time of the way between two places, in whole minutes, at least one."""
    return max(1, -(-blocks(start, end) // SPEEDS[by]))


def generate_town(random: Random) -> Town:
    """30 places of six kinds, each at a crossing of its own and with a phone number of its own."""
    crossings = iter(random.sample([(x, y) for x in range(SIZE) for y in range(SIZE)], 60))
    phones = iter(random.sample(range(2000, 3000), 60))
    places = {}
    for kind in KINDS:
        names = draws(random, ADJECTIVES, ANIMALS, (kind,))
        for _ in range(PLACES_PER_KIND):
            x, y = next(crossings)
            place = Place(
                name=next(names),
                kind=kind,
                number=random.randint(1, 99),
                street=random.choice(STREETS),
                phone=next(phones),
                opens=random.randint(6, 11),
                x=x,
                y=y,
            )
            places[place.slug] = place
    return Town(places=places, saved={})
