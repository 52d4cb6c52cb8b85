"""Tasks on the map."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from itertools import product as pairs

from agentrl_envs.environments.web_sites.content.map import KINDS, SPEEDS, blocks, minutes
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import Click, Fill, OneSite, SiteTask, base

SITE = "map"
BASE = base(SITE)
task = OneSite(SITE).task


def open_listed(state: State) -> Iterator[SiteTask]:
    """One click: a place in the list of its kind."""
    for place in state.town.places.values():
        yield task(
            "map/open-listed",
            "open the page of the {{place}}",
            {"place": place.name},
            [Click(place.name)],
            start=f"{BASE}/kind/{place.kind}",
            url=f"{BASE}/place/{place.slug}",
        )


def open_kind(state: State) -> Iterator[SiteTask]:
    """Two clicks: from a place to the places of a kind."""
    for place, kind in pairs(state.town.places.values(), KINDS):
        if place.kind != kind:
            yield task(
                "map/open-kind",
                "show all places of the kind {{kind}}",
                {"kind": kind},
                [Click("Map"), Click(kind)],
                start=f"{BASE}/place/{place.slug}",
                url=f"{BASE}/kind/{kind}",
            )


def open_place(state: State) -> Iterator[SiteTask]:
    """Two clicks: the kind and the place."""
    for place in state.town.places.values():
        yield task(
            "map/open-place",
            "open the page of the {{place}}",
            {"place": place.name},
            [Click(place.kind), Click(place.name)],
            url=f"{BASE}/place/{place.slug}",
        )


def tell_phone(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer."""
    for place in state.town.places.values():
        yield task(
            "map/tell-phone",
            "what is the phone number of the {{place}} ?",
            {"place": place.name},
            [Click(place.kind), Click(place.name)],
            answer=str(place.phone),
        )


def save(state: State) -> Iterator[SiteTask]:
    """Three clicks."""
    for place in state.town.places.values():
        yield task(
            "map/save-place",
            "save the {{place}}",
            {"place": place.name},
            [Click(place.kind), Click(place.name), Click("Save place")],
            program=[(f"{BASE}/saved", "#places", "must_include", place.name)],
        )


def tell_time(state: State) -> Iterator[SiteTask]:
    """Five moves and an answer."""
    for (start, end), by in pairs(permutations(state.town.places.values(), 2), SPEEDS):
        yield task(
            "map/tell-time",
            "how many minutes does it take from the {{start}} to the {{end}} by {{by}} ?",
            {"start": start.name, "end": end.name, "by": by},
            [
                Click("Directions"),
                Fill("From", start.name),
                Fill("To", end.name),
                Click(by),
                Click("Show way"),
            ],
            answer=str(minutes(start, end, by)),
        )


def tell_distance(state: State) -> Iterator[SiteTask]:
    """Four moves and an answer."""
    for start, end in permutations(state.town.places.values(), 2):
        yield task(
            "map/tell-distance",
            "how far is it from the {{start}} to the {{end}} ?",
            {"start": start.name, "end": end.name},
            [
                Click("Directions"),
                Fill("From", start.name),
                Fill("To", end.name),
                Click("Show way"),
            ],
            answer=f"{blocks(start, end) / 10:.1f} km",
        )


TEMPLATES = (
    open_listed,
    open_kind,
    open_place,
    tell_phone,
    save,
    tell_time,
    tell_distance,
)
