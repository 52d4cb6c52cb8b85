"""The accessibility tree of the viewport: WebArena's observation (arXiv 2307.13854, section 2.3).

Input are Chromium's full accessibility tree (`Accessibility.getFullAXTree`) and its layout
(`DOMSnapshot.captureSnapshot`), two calls for a page of any size. As in WebArena: elements count as
visible if at least 60 % of their box is inside the viewport; empty generic elements, and texts that
a line just above repeats, are left out. Unlike there, elements are numbered in the order of the
tree, so that the same page has the same text in every session, and the options of a drop-down list
are part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_IN_VIEWPORT = 0.6
"""Share of an element's box that must be inside the viewport."""

REPEATED_WITHIN = 3
"""A text is left out if one of so many lines before it contains the text."""

IGNORED_PROPERTIES = frozenset(
    ("atomic", "busy", "controls", "describedby", "editable", "focusable", "invalid")
) | frozenset(
    ("labelledby", "level", "live", "multiline", "owns", "readonly", "relevant", "settable", "url")
)
UNNAMED_ROLES = frozenset(
    ("LabelText", "Legend", "Section", "banner", "generic", "image", "img", "list", "listitem")
) | frozenset(("navigation", "paragraph", "strong"))
"""Roles that say nothing without a name."""

HIDDEN_ROLES = frozenset(("InlineTextBox", "MenuListPopup", "LineBreak", "none", "ScrollArea"))


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the viewport, in CSS pixels."""

    x: float
    y: float
    width: float
    height: float

    def share_inside(self, width: float, height: float) -> float:
        """Share of the area inside a viewport of this size; 0 for an empty box."""
        if self.width <= 0 or self.height <= 0:
            return 0.0
        across = min(self.x + self.width, width) - max(self.x, 0)
        down = min(self.y + self.height, height) - max(self.y, 0)
        return max(across, 0) * max(down, 0) / (self.width * self.height)

    def centre(self, width: float, height: float) -> tuple[float, float]:
        """Centre of the part inside a viewport of this size."""
        left, right = max(self.x, 0), min(self.x + self.width, width)
        top, bottom = max(self.y, 0), min(self.y + self.height, height)
        return (left + right) / 2, (top + bottom) / 2


@dataclass(frozen=True, slots=True)
class Element:
    """One line of the observation."""

    id: int
    depth: int
    role: str
    name: str
    properties: tuple[tuple[str, Any], ...]
    node: int
    """Chromium's id of the DOM node (`backendNodeId`). Text that a style sheet generates has none:
    then that of the nearest element around it."""
    box: Box

    def line(self) -> str:
        """WebArena's line, without its indentation: `[3] link 'Home' expanded: False`."""
        properties = "".join(f" {name}: {value}" for name, value in self.properties)
        return f"[{self.id}] {self.role} {self.name!r}{properties}"


def elements(
    tree: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], width: int, height: int
) -> tuple[Element, ...]:
    """The visible elements of a page, in the order of the tree, numbered from 1."""
    nodes = {node["nodeId"]: node for node in tree}
    boxes = _boxes(layout)
    kept: list[Element] = []
    lines: list[str] = []
    for depth, node, place in _walk(nodes, tree[0]["nodeId"], boxes, 0, None, (width, height)):
        role, name = _role(node), _name(node)
        if role == "StaticText" and any(name in line for line in lines[-REPEATED_WITHIN:]):
            continue
        element = Element(len(kept) + 1, depth, role, name, _properties(node), *place)
        kept.append(element)
        lines.append(element.line())
    return tuple(kept)


def _walk(
    nodes: Mapping[str, Mapping[str, Any]],
    node_id: str,
    boxes: Mapping[int, Box],
    depth: int,
    above: tuple[int, Box] | None,
    viewport: tuple[int, int],
) -> Iterator[tuple[int, Mapping[str, Any], tuple[int, Box]]]:
    """(depth, node, (id of the DOM node, box)) of the nodes that are shown. The children of one
    that is not take its place."""
    node = nodes.get(node_id)
    if node is None:
        return
    dom_node = node.get("backendDOMNodeId", -1)
    place = (dom_node, boxes[dom_node]) if dom_node in boxes else None
    if place is None and above is not None and _role(node) in ("option", "StaticText"):
        # options of a closed list, the text of a field and generated text have no box of their own
        place = (node.get("backendDOMNodeId", above[0]), above[1])
    if place is not None and _is_shown(node, place[1], viewport):
        yield depth, node, place
        depth += 1
    for child in node.get("childIds", ()):
        yield from _walk(nodes, child, boxes, depth, place or above, viewport)


def _is_shown(node: Mapping[str, Any], box: Box, viewport: tuple[int, int]) -> bool:
    role = _role(node)
    if node.get("ignored") or role in HIDDEN_ROLES:
        return False
    if role == "RootWebArea":
        return True
    if not _name(node).strip() and (
        role in ("StaticText", "listitem") or (role in UNNAMED_ROLES and not _properties(node))
    ):
        return False
    return box.share_inside(*viewport) >= MIN_IN_VIEWPORT


def _role(node: Mapping[str, Any]) -> str:
    return str(node.get("role", {}).get("value", "none"))


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("name", {}).get("value", ""))


def _properties(node: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (each["name"], each["value"]["value"])
        for each in node.get("properties", ())
        if each["name"] not in IGNORED_PROPERTIES and "value" in each["value"]
    )


def _boxes(layout: Mapping[str, Any]) -> dict[int, Box]:
    """Boxes of the main document's nodes in the viewport, by `backendNodeId`."""
    document = layout["documents"][0]
    ids = document["nodes"]["backendNodeId"]
    left, top = document.get("scrollOffsetX", 0), document.get("scrollOffsetY", 0)
    laid_out = zip(document["layout"]["nodeIndex"], document["layout"]["bounds"], strict=True)
    return {ids[index]: Box(x - left, y - top, w, h) for index, (x, y, w, h) in laid_out}
