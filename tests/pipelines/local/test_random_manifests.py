"""Manifests that Hypothesis combines: each run ends, and one with other processes that is killed
and resumed has the same metrics."""

import signal
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from corridor_run import HEADER
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st
from local_run import AGENTRL

from agentrl_components.errors import SpecError
from agentrl_components.spec import parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_pipelines.cli.commands.metrics import lines

pytestmark = pytest.mark.load
pytest.importorskip("ray")

ALGORITHMS = ["ppo", "grpo", "rloo", "reinforce++", "reinforce++-baseline", "gspo", "gigpo"]
CORRIDOR = {"name": "corridor", "builtin": "corridor", "replicas": 0}
MAZE = {
    "name": "maze",
    "builtin": "maze",
    "options": {"text": "terse"},
    "replicas": 0,
    "weight": 0.5,
    "maxTurns": [2],
}
CHOICES = {
    "model": {
        "context": [512],
        "implementation": ["auto", "transformers"],
        "dtype": ["float32", "bfloat16"],
        "lora": [None, {"rank": 2, "alpha": 4}, {"rank": 4, "dropout": 0.1}],
    },
    "environments": [[CORRIDOR], [CORRIDOR | {"workers": 1}], [CORRIDOR, MAZE]],
    "warmStart": [None, {"algorithm": "filtered-imitation", "episodes": 20, "maxTurns": 3}],
    "algorithm": {
        "name": ALGORITHMS,
        "entropy": [0.0, 0.05],
        "normalise": ["auto", "token", "sequence", "constant"],
        "kl": [None, {"coefficient": 0.1, "estimator": "k1"}, {"coefficient": 0.1}],
        "importanceSampling": [{"mode": "truncate"}, {"mode": "mask"}],
    },
    "horizon": {
        "phases": [[{"maxTurns": 2, "iterations": 2}, {"maxTurns": 4, "iterations": 2}]],
        "alarms": [[], [{"action": "rollback", "window": 2, "entropyBelow": 99.0}]],
    },
    "rollout": {
        "tasks": [3, 5],
        "groupSize": [2, 3],
        "actions": ["free", "admissible"],
        "maxTokensPerTurn": [4],
        "maxStaleness": [0, 0, 1, 2],
        "interrupt": [None, "continue", "abort"],
        "concurrency": [3, 256],
    },
    "update": {
        "miniBatch": [4, 100],
        "microBatchTokens": [64, 2048],
        "checkpointEvery": [1, 2, 10],
        "epochs": [1, 2],
        "gradientCheckpointing": [False, True],
        "logitsChunk": [16, 1024],
        "schedule": ["constant", "cosine"],
    },
    "evaluation": {"tasks": [6], "every": [0, 1], "samples": [1, 2], "turnSweep": [[], [2, 6]]},
    "compute": {
        "ray": [None, "embedded", "embedded"],
        "workers": [None, 1, 2],
        "trainers": [None, {"count": 1}, {"count": 2}],
        "samplers": [None, {"count": 1}, {"count": 2}],
    },
}
"""The values of each field; None: the field is left out."""


def drawn(choices):
    """A strategy for a mapping with one of the values of each field."""
    if isinstance(choices, list):
        return st.sampled_from(choices)
    fields = st.fixed_dictionaries({name: drawn(some) for name, some in choices.items()})
    return fields.map(
        lambda found: {name: value for name, value in found.items() if value is not None}
    )


@st.composite
def manifests(draw):
    """A valid manifest."""
    manifest = yaml.safe_load(HEADER)
    tiny = manifest["spec"]["model"]
    manifest["spec"] = draw(drawn(CHOICES)) | {"seed": draw(st.integers(0, 99))}
    manifest["spec"]["model"] |= {name: tiny[name] for name in ("source", "tiny")}
    compute = manifest["spec"]["compute"]
    if "ray" not in compute:
        compute["device"] = "cpu"
    try:
        parse(manifest)
    except SpecError:
        assume(False)
    return manifest


def with_other_processes(manifest):
    """The manifest with another number of samplers or of worker processes."""
    other = deepcopy(manifest)
    compute = other["spec"]["compute"]
    if "ray" in compute:
        compute["samplers"] = {"count": 3 - compute.get("samplers", {"count": 1})["count"]}
    else:
        compute["workers"] = 3 - compute.get("workers", 2)
    return other


def command(manifest, root):
    file = root.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(manifest))
    return [sys.executable, "-c", AGENTRL, "run", str(file), "--root", str(root)]


def run(manifest, root):
    done = subprocess.run(command(manifest, root), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def run_and_kill(manifest, root, iterations):
    """Kill the run when it has recorded so many iterations."""
    with subprocess.Popen(
        command(manifest, root), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            if len(list((root / "store" / keys.ITERATIONS).glob("*.json"))) >= iterations:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.05)


def metrics(root):
    return list(lines(DirectoryStore(root / "store")))


@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.generate],  # a run takes too long to look for a simpler one
    suppress_health_check=list(HealthCheck),
)
@given(manifest=manifests(), killed_after=st.integers(1, 4))
def test_a_run_ends_and_with_other_processes_and_a_kill_its_metrics_are_the_same(
    manifest, killed_after
):
    note(yaml.safe_dump(manifest))
    with tempfile.TemporaryDirectory(prefix="agentrl-random-") as folder:
        calm, killed = Path(folder, "calm"), Path(folder, "killed")
        run(manifest, calm)
        spec = manifest["spec"]
        if "ray" in spec["compute"] and spec["rollout"]["maxStaleness"] > 0:
            return  # its metrics depend on speed
        other = with_other_processes(manifest)
        run_and_kill(other, killed, killed_after)
        run(other, killed)
        assert metrics(killed) == metrics(calm)
