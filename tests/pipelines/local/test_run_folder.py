"""The folder of a run whose `spec.storage` names another store."""

import os
from pathlib import Path

import pytest
from corridor_run import manifest
from local_run import run_to_end

from agentrl_components.errors import SpecError
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage import keys
from agentrl_pipelines.local.run_folder import check_store, open_run


def short(store: Path | None, **changes: object) -> AgentRLRun:
    """A run of one iteration, with its store in `store`, or in its folder."""
    fields = {
        "warmStart": None,
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        "rollout": {"tasks": 2, "groupSize": 2},
        "evaluation": {"tasks": 2, "every": 0},
        "storage": {"url": None if store is None else store.as_uri()},
    }
    return manifest(**fields | changes)


def test_the_manifest_is_replaced_atomically_when_the_run_is_resumed(tmp_path):
    run_to_end(short(tmp_path / "kept"), tmp_path / "run")
    os.link(tmp_path / "run" / keys.RUN, tmp_path / "read")
    run_to_end(short(tmp_path / "kept", backoffLimit=9), tmp_path / "run")
    assert open_run(tmp_path / "run")[1].spec.backoff_limit == 9
    assert '"backoffLimit": 9' not in (tmp_path / "read").read_text(), (
        "the file must be replaced, not overwritten"
    )


@pytest.mark.parametrize("before", [None, "kept"])
def test_a_folder_is_refused_if_its_run_has_another_store(before, tmp_path):
    """Regression: another run began, whose report replaced the first one's, while `agentrl metrics`
    went on to read the first."""
    stores = {None: None, "kept": tmp_path / "kept", "other": tmp_path / "other"}
    root = tmp_path / "run"
    run_to_end(short(stores[before]), root)
    report = (root / "report.json").read_bytes()
    for name in stores.keys() - {before}:
        with pytest.raises(SpecError, match=r"^spec\.storage\.url: .*run holds a run that began"):
            run_to_end(short(stores[name]), root)
    assert (root / "report.json").read_bytes() == report
    assert not (tmp_path / "other").exists()


def test_the_same_store_may_be_written_in_another_way(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    check_store(tmp_path / "run", None)  # there is no run yet
    (tmp_path / "run" / "store").mkdir(parents=True)
    (tmp_path / "run" / "store" / keys.RUN).touch()
    check_store(tmp_path / "link", None)
    check_store(tmp_path / "link", (tmp_path / "run" / "store").as_uri())
    with pytest.raises(SpecError, match=r"began with None, not 's3://bucket/run'; restore"):
        check_store(tmp_path / "run", "s3://bucket/run")
