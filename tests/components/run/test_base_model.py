"""The model of a run is that of its first start.

The Hugging Face hub is the cache of huggingface_hub, in its own layout, offline. Its branch `main`
moves as it does when a later start downloads what was pushed meanwhile.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corridor_run import manifest

from agentrl_components.errors import ModelError, StoreError
from agentrl_components.model.digests import sample_of
from agentrl_components.model.sources import commit_of, make_tiny
from agentrl_components.run.base_model import at_commit, keep_model, recorded_commit
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


def test_processes_that_open_the_run_later_download_the_recorded_commit(tmp_path):
    """Stages in other pods read it from the store, and actors get it with their spec."""
    store, spec = MemoryStore(), manifest(model=MODEL).spec
    assert at_commit(spec, recorded_commit(store)) == spec
    for _ in range(2):  # two stages that begin at the same time
        keep_model(store, spec.model, tmp_path / "snapshots" / FIRST)
    assert at_commit(spec, recorded_commit(store)).model.revision == FIRST
    with pytest.raises(StoreError, match=r"began with commit a{40} of .*, this one with b{40}"):
        keep_model(store, spec.model, tmp_path / "snapshots" / SECOND)


def test_a_folder_whose_weights_have_changed_is_refused(tmp_path):
    words, tiny = CorridorTasks().vocabulary(), manifest().spec.model
    model, store = Model(source=(tmp_path / "base").as_uri()), MemoryStore()
    folder = make_tiny(tiny, words, 0, tmp_path / "base")
    keep_model(store, model, folder)
    (folder / "README.md").write_text("about the model")
    (folder / "trainer").mkdir()
    os.utime(folder / "config.json", (0, 0))
    keep_model(store, model, folder)
    make_tiny(tiny, words, 1, folder)
    with pytest.raises(ModelError, match=r"has changed since the run in memory: began, .*new run"):
        keep_model(store, model, folder)
    make_tiny(tiny, words, 0, folder)
    keep_model(store, model, folder)


def test_a_digest_of_large_weights_reads_a_part_of_them(tmp_path):
    """Of 64 blocks of 4 KiB, evenly spread over 1 MiB, the first ends at 4 KiB, the second begins
    at (1 MiB - 4 KiB) // 63 = 16579, and the last ends with the file."""
    weights = tmp_path / "model.safetensors"

    def sample(changed: int | None) -> str:
        content = bytearray(2**20)
        if changed is not None:
            content[changed] = 1
        weights.write_bytes(content)
        return sample_of(tmp_path)

    same = sample(None)
    assert [sample(at) != same for at in (4095, 4096, 16578, 16579, 2**20 - 1)] == [
        *(True, False, False, True, True)
    ]


def test_a_folder_outside_the_hubs_cache_is_not_compared_with_a_commit(tmp_path):
    """As of a client of the hub that keeps another layout: there is nothing to compare."""
    hub, store = Model(source="hf://org/base"), MemoryStore()
    folder = make_tiny(manifest().spec.model, CorridorTasks().vocabulary(), 0, tmp_path / "base")
    keep_model(store, hub, tmp_path / "snapshots" / FIRST)
    keep_model(store, hub, folder)
    assert recorded_commit(store) == FIRST


def test_a_tiny_model_is_not_recorded(tmp_path):
    store = MemoryStore()
    keep_model(store, manifest().spec.model, tmp_path)
    assert store.objects == {}
