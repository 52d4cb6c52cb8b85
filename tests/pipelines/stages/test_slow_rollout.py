"""A rollout stage that is slower than the update stage."""

import threading
import time
from pathlib import Path

from stage_run import manifest, stage_context

from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.stages.disaggregated import play_phase
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import SilentTracker
from agentrl_pipelines.stages.runner import run_stage


class DelayedStore(DirectoryStore):
    """`exists` on the key written last returns only after the update stage has deleted it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._last = ""

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        if key.startswith(keys.TRAJECTORIES):
            self._last = key

    def exists(self, key: str) -> bool:
        deadline = time.monotonic() + 300
        while key == self._last and super().exists(key):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return super().exists(key)


def test_consumed_and_deleted_episodes_are_not_played_again(tmp_path):
    update = {"keepLast": 1, "checkpointEvery": 1}
    run = manifest(tmp_path / "kept", "disaggregated", update=update)
    assert run_stage("provision", stage_context(run, tmp_path / "s", 0)) == 0
    view = SilentProgressView()

    def play() -> None:
        store = DelayedStore(tmp_path / "kept")
        with RunContext(run, store, SilentTracker(), view, lambda: None, learns=False) as context:
            play_phase(context, 0)

    player = threading.Thread(target=play)
    player.start()
    assert run_stage("update", stage_context(run, tmp_path / "s", 0)) == 0
    player.join()
    assert view.done == 5
    assert list(DirectoryStore(tmp_path / "kept").list(keys.TRAJECTORIES)) == []
