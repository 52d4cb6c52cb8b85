"""Pages of the map."""

from __future__ import annotations

from agentrl_envs.environments.web_sites.content.map import (
    KINDS,
    SIZE,
    SPEEDS,
    Place,
    blocks,
    minutes,
)
from agentrl_envs.environments.web_sites.visit import (
    Page,
    Redirect,
    Route,
    Site,
    Visit,
    missing,
    search_results,
)


def home(visit: Visit) -> Page:
    values = {"kinds": KINDS, "places": list(visit.state.town.places.values()), "size": SIZE}
    return Page("map/home.html", values)


def kind(visit: Visit) -> Page:
    name = visit.path["kind"]
    if name not in KINDS:
        return missing("kind of place")
    places = visit.state.town.of_kind(name)
    return Page("map/kind.html", {"kind": name, "places": places, "size": SIZE})


def place(visit: Visit) -> Page:
    shown = visit.state.town.places.get(visit.path["slug"])
    if shown is None:
        return missing("place")
    saved = shown.slug in visit.state.town.saved
    return Page("map/place.html", {"place": shown, "saved": saved, "size": SIZE})


def save(visit: Visit) -> Page | Redirect:
    town = visit.state.town
    shown = town.places.get(visit.path["slug"])
    if shown is None:
        return missing("place")
    if shown.slug in town.saved:
        del town.saved[shown.slug]
    else:
        town.saved[shown.slug] = None
    return Redirect(f"/place/{shown.slug}")


def saved(visit: Visit) -> Page:
    town = visit.state.town
    return Page("map/saved.html", {"places": [town.places[slug] for slug in town.saved]})


def directions(visit: Visit) -> Page:
    start, end = visit.query.get("from", ""), visit.query.get("to", "")
    by = visit.query.get("by", "")
    by = by if by in SPEEDS else next(iter(SPEEDS))
    first, last = _named(visit, start), _named(visit, end)
    way = None
    if first is not None and last is not None:
        way = {
            "start": first,
            "end": last,
            "km": f"{blocks(first, last) / 10:.1f}",
            "minutes": minutes(first, last, by),
        }
    values = {"start": start, "end": end, "by": by, "speeds": list(SPEEDS), "way": way}
    return Page("map/directions.html", {**values, "asked": bool(start or end), "size": SIZE})


def search(visit: Visit) -> Page:
    places = ((each.name, each) for each in visit.state.town.places.values())
    return search_results(visit, "map/search.html", "places", places)


def _named(visit: Visit, name: str) -> Place | None:
    """The place with a name, as a person types it."""
    return visit.state.town.places.get("-".join(name.lower().split()))


SITE = Site(
    name="map",
    title="Town Map",
    links={"Map": "/", "Directions": "/directions", "Saved places": "/saved"},
    search="Search places",
    routes=(
        Route("GET", "/", home),
        Route("GET", "/kind/{kind}", kind),
        Route("GET", "/place/{slug}", place),
        Route("POST", "/place/{slug}/save", save),
        Route("GET", "/saved", saved),
        Route("GET", "/directions", directions),
        Route("GET", "/search", search),
    ),
)
