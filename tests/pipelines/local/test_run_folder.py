"""The folder of a run whose store is elsewhere."""

import os

from corridor_run import manifest
from local_run import done

from agentrl_components.storage import keys
from agentrl_pipelines.local.run_folder import open_run


def test_who_reads_the_manifest_while_the_run_starts_again_reads_a_whole_one(tmp_path):
    short = {
        "warmStart": None,
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        "rollout": {"tasks": 2, "groupSize": 2},
        "evaluation": {"tasks": 2, "every": 0},
        "storage": {"url": (tmp_path / "kept").as_uri()},
    }
    done(manifest(**short), tmp_path / "run")
    os.link(tmp_path / "run" / keys.RUN, tmp_path / "read")
    done(manifest(**short, backoffLimit=9), tmp_path / "run")
    assert open_run(tmp_path / "run")[1].spec.backoff_limit == 9
    assert '"backoffLimit": 9' not in (tmp_path / "read").read_text(), "it was written over"
