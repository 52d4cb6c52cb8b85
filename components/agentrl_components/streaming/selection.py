"""Which groups an update learns from: a pure function.

A group that was started after update b may be learnt from by updates b to b + `max_staleness`
(counted from 0), since weights of update b may have sampled its first token. An update takes the
groups that were completed first, but never so many young ones that the old ones left over could not
all be learnt from in time: for every later update d, the groups that must be learnt from before d
have to fit into the updates before d.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def select(
    completed: Sequence[int], last_update: Mapping[int, int], update: int, size: int
) -> list[int] | None:
    """The groups that `update` learns from, or None if more groups have to be completed first.

    Args:
        completed: numbers of the completed groups, in order of completion.
        last_update: for each group that was started and not learnt from, whether completed or not,
            the last update that may learn from it.
        update: the number of the update, from 0.
        size: groups of an update. `last_update` must leave room: for each d, at most
            (d - update + 1) * size groups have a last update of at most d.
    """
    if len(completed) < size:
        return None
    chosen: dict[int, None] = {}
    for deadline in sorted(set(last_update.values())):
        held = [n for n, last in last_update.items() if last <= deadline]
        taken = sum(last_update[n] <= deadline for n in chosen)
        needed = len(held) - (deadline - update) * size - taken
        ready = [n for n in completed if last_update[n] <= deadline and n not in chosen]
        if needed > len(ready):
            return None
        chosen |= dict.fromkeys(ready[: max(0, needed)])
    others = [n for n in completed if n not in chosen]
    return [*chosen, *others[: size - len(chosen)]]
