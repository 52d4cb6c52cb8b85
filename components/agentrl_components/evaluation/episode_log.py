"""Finished episodes of an evaluation in a folder, one file each.

An evaluation of an endpoint may take hours and cost money. Killed at any moment and started again,
it plays only what is missing. Files are written atomically and named by what the episode depends
on. Episodes of the random policy cost nothing and are not kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from agentrl_components.errors import AbsentError, SpecError
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.text_rollout import Usage, episode_identity
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.record import Trajectory

DESCRIPTION, EPISODES = "evaluation.json", "episodes"
RANDOM = "random"
"""Purpose of the episodes of the random policy."""


class FolderLog:
    """Implements `EpisodeLog`: the log in `folder`. `on_episode` is called with each finished
    episode, what it cost, and whether an earlier process had finished it."""

    def __init__(
        self,
        folder: Path,
        description: dict[str, object],
        on_episode: Callable[[Trajectory, Usage, bool], None] = lambda episode, usage, resumed: (
            None
        ),
    ) -> None:
        """`description` holds all that the results depend on. Raises `SpecError` if the folder has
        the episodes of another evaluation."""
        self._folder, self._on_episode = folder, on_episode
        self._description = json.dumps(description, sort_keys=True, indent=1).encode()
        self._store: DirectoryStore | None = None
        self.usage = Usage()
        """What the episodes cost so far, and how their replies ended."""
        self.resumed = 0
        """Episodes found in the folder."""
        if (folder / DESCRIPTION).exists():
            self._store = DirectoryStore(folder)
            if self._store.get(DESCRIPTION) != self._description:
                raise SpecError(
                    [
                        f"--out: {folder} has the episodes of another evaluation; name another "
                        "folder, or remove it"
                    ]
                )

    def find(self, job: Job, rules: Rules) -> Trajectory | None:
        """The episode of `job`, if it was finished earlier."""
        if self._store is None or rules.purpose == RANDOM:
            return None
        try:
            kept = json.loads(self._store.get(_key(job, rules)))
        except AbsentError:
            return None
        (episode,) = codec.decode(base64.b64decode(kept["episode"]), _key(job, rules))
        self.resumed += 1
        self._count(episode, Usage(**kept["usage"]), resumed=True)
        return replace(episode, group=job.group)

    def add(self, job: Job, rules: Rules, episode: Trajectory, usage: Usage) -> None:
        """Write a finished episode."""
        if rules.purpose == RANDOM:
            return
        if self._store is None:
            self._store = DirectoryStore(self._folder)
            self._store.put(DESCRIPTION, self._description)
        data = {
            "usage": asdict(usage),
            "episode": base64.b64encode(codec.encode([episode])).decode(),
        }
        self._store.replace(_key(job, rules), json.dumps(data).encode())
        self._count(episode, usage, resumed=False)

    def _count(self, episode: Trajectory, usage: Usage, *, resumed: bool) -> None:
        self.usage += usage
        self._on_episode(episode, usage, resumed)


def _key(job: Job, rules: Rules) -> str:
    """Where an episode is kept: a function of all that it depends on besides the description."""
    path = json.dumps(episode_identity(job, rules))
    return f"{EPISODES}/{hashlib.sha256(path.encode()).hexdigest()[:24]}.json"
