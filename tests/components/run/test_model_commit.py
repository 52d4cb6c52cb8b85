"""A model from the Hugging Face hub stays at the commit of the first start.

The hub is the cache of huggingface_hub, in its own layout and offline. Its branch `main` moves as
it does when a later start downloads what was pushed meanwhile.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corridor_run import manifest

from agentrl_components.errors import StoreError
from agentrl_components.model.sources import commit_of, make_tiny
from agentrl_components.run.model_commit import at_commit, record_commit, recorded_commit
from agentrl_components.spec import Model
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_envs.environments.corridor import CorridorTasks

FIRST, SECOND = "a" * 40, "b" * 40
MODEL = {
    "source": "hf://org/base",
    "template": "plain",
    "lora": {"rank": 2, "targets": ["q_proj"]},
}
STARTS = """
import json, sys
from pathlib import Path
import torch
from corridor_run import manifest
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker

run = manifest(model=json.loads(sys.argv[1]), warmStart=None)

def start(root):
    '''A start of the run in `root`: the commit of its model, and its weights.'''
    view = SilentProgressView()
    with RunContext(run, DirectoryStore(Path(root)), MemoryTracker(), view, lambda: None) as opened:
        opened.save()
        weights = [weight.flatten() for _, weight in opened.learner.trainers.weights()]
        return opened.workers.folder.name, torch.cat(weights).tolist()

first = start("run")
Path(sys.argv[2], "refs", "main").write_text(sys.argv[3])
resumed, other = start("run"), start("another run")
print(json.dumps([[first[0], resumed[0], other[0]], resumed == first, other[1] == first[1]]))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository in the cache, with two commits, whose weights differ."""
    place = tmp_path / "cache" / "models--org--base"
    for seed, commit in enumerate((FIRST, SECOND)):
        words = CorridorTasks().vocabulary()
        make_tiny(manifest().spec.model, words, seed, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(FIRST)
    return place


def test_a_resumed_run_has_the_commit_of_its_first_start(tmp_path, repository):
    offline = {"HF_HUB_CACHE": str(repository.parent), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", STARTS, json.dumps(MODEL), str(repository), SECOND],
        cwd=tmp_path,
        env=os.environ | offline | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    commits, resumed_is_first, other_is_first = json.loads(done.stdout.splitlines()[-1])
    assert commits == [FIRST, FIRST, SECOND]
    assert resumed_is_first
    assert not other_is_first
    recorded = json.loads((tmp_path / "run" / keys.MODEL).read_text())
    assert recorded == {"commit": FIRST}


def test_only_a_folder_of_the_hubs_cache_tells_a_commit(tmp_path):
    hub, folder = Model(source="hf://org/base"), Model(source="file:///models/base")
    snapshot = tmp_path / "snapshots" / FIRST
    assert commit_of(hub, snapshot) == FIRST
    assert commit_of(folder, snapshot) is None
    assert commit_of(hub, tmp_path / "snapshots" / "main") is None
    assert commit_of(hub, tmp_path / FIRST) is None


def test_processes_that_open_the_run_later_download_the_recorded_commit():
    """Stages in other pods read it from the store, and actors get it with their spec."""
    store, spec = MemoryStore(), manifest(model=MODEL).spec
    assert recorded_commit(store) is None
    assert at_commit(spec, None) == spec
    record_commit(store, FIRST)
    record_commit(store, FIRST)  # by two stages that began at the same time
    assert at_commit(spec, recorded_commit(store)).model.revision == FIRST
    with pytest.raises(StoreError, match=r"model\.json: already in memory: with other bytes"):
        record_commit(store, SECOND)
