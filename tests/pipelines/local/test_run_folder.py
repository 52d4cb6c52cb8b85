"""The folder of a run whose `spec.storage` names another store."""

import os

from corridor_run import manifest
from local_run import run_to_end

from agentrl_components.storage import keys
from agentrl_pipelines.local.run_folder import open_run


def test_the_manifest_is_replaced_atomically_when_the_run_is_resumed(tmp_path):
    short = {
        "warmStart": None,
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        "rollout": {"tasks": 2, "groupSize": 2},
        "evaluation": {"tasks": 2, "every": 0},
        "storage": {"url": (tmp_path / "kept").as_uri()},
    }
    run_to_end(manifest(**short), tmp_path / "run")
    os.link(tmp_path / "run" / keys.RUN, tmp_path / "read")
    run_to_end(manifest(**short, backoffLimit=9), tmp_path / "run")
    assert open_run(tmp_path / "run")[1].spec.backoff_limit == 9
    assert '"backoffLimit": 9' not in (tmp_path / "read").read_text(), (
        "the file must be replaced, not overwritten"
    )
