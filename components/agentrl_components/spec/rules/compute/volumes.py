"""Volumes of pods: each claim and each path once, and none where the pods have another volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentrl_components.spec.fields.pods import Volume
from agentrl_components.spec.rules.rule import Mistake

MOUNTED = ("/tmp", "/dev/shm")
"""Where pods have volumes already."""
TAKEN_NAMES = ("scratch", "shared-mem", "shared-memory", "tmp")
"""Names of these volumes. A claim's volume has the name of the claim."""


def free_places(volumes: str) -> str:
    """In CEL: claims and paths in the list `volumes` are unique and not those of another volume."""
    return (
        f"{volumes}.all(v,"
        f" !(v.claim in {list(TAKEN_NAMES)})"
        f" && {volumes}.exists_one(same, same.claim == v.claim)"
        f" && {volumes}.exists_one(same, same.path == v.path)"
        f" && !{list(MOUNTED)}.exists(m, v.path == m || v.path.startsWith(m + '/')"
        " || m.startsWith(v.path + '/')))"
    )


def place_mistakes(where: str, volumes: Sequence[Volume]) -> Iterator[Mistake]:
    """The mistakes that `free_places` forbids, in the list at the path `where`."""
    seen: set[str] = set()
    for position, volume in enumerate(volumes):
        if volume.claim in TAKEN_NAMES or volume.claim in seen:
            taken = "the name of another volume of the pods"
            yield Mistake(
                field=f"{where}[{position}].claim",
                reason=f"{volume.claim} is {'a duplicate' if volume.claim in seen else taken}",
                fix="leave it out, or use another claim",
            )
        if volume.path in seen or any(overlap(volume.path, other) for other in MOUNTED):
            yield Mistake(
                field=f"{where}[{position}].path",
                reason=f"{volume.path} is where pods have another volume",
                fix="choose another path, such as /models",
            )
        seen |= {volume.claim, volume.path}


def overlap(one: str, other: str) -> bool:
    """Whether a path is the other one, or below or above it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
