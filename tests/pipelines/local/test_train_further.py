"""A new run goes on from a checkpoint of a finished one (docs/train-further.md)."""

import re
from pathlib import Path

import pytest
from corridor_run import manifest
from local_run import run_to_end

from agentrl_components.errors import SpecError
from agentrl_components.reporting.build import Report, build
from agentrl_pipelines.local.run_folder import open_run

SHORT = {
    "horizon": {"phases": [{"maxTurns": 2, "iterations": 2}, {"maxTurns": 4, "iterations": 2}]}
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished")
    run_to_end(manifest(**SHORT), root)
    return root


def report_of(root: Path) -> Report:
    store, run = open_run(root)
    return build(store, run, root)


def test_a_new_run_begins_with_the_policy_of_a_checkpoint(finished: Path, tmp_path: Path):
    first = report_of(finished)
    (last,) = [kept for kept in first.checkpoints if kept.last]
    model = {"source": last.url, "context": 64}
    further = manifest(
        model=model,
        warmStart=None,
        horizon={"phases": [{"maxTurns": 4, "iterations": 2}]},
    )
    run_to_end(further, tmp_path)
    second = report_of(tmp_path)
    assert (len(first.training), len(second.training), second.status) == (4, 2, "succeeded")
    assert first.heldout.after is not None
    assert second.heldout.before == first.heldout.after.model_copy(update={"name": "before"})


def test_more_iterations_in_the_manifest_of_a_finished_run_are_refused(finished: Path):
    longer = [{"maxTurns": 2, "iterations": 2}, {"maxTurns": 4, "iterations": 9}]
    mistake = r"spec\.horizon\.phases\[1\]\.iterations: .* began with 2, not 9; restore the value,"
    with pytest.raises(SpecError, match=mistake):
        run_to_end(manifest(horizon={"phases": longer}), finished)
    further = [*SHORT["horizon"]["phases"], {"maxTurns": 4, "iterations": 2}]
    with pytest.raises(SpecError, match=re.escape("spec.horizon.phases: ")):
        run_to_end(manifest(horizon={"phases": further}), finished)


def test_the_unchanged_manifest_of_a_finished_run_trains_nothing(finished: Path):
    before = report_of(finished)
    (finished / "report.html").unlink()
    run_to_end(manifest(**SHORT), finished)
    assert report_of(finished).training == before.training
    assert (finished / "report.html").exists()
