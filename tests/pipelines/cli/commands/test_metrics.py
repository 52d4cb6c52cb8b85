import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from agentrl_components.spec import parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore, MemoryStore
from agentrl_components.storage.records import RunState
from agentrl_pipelines.cli.commands.metrics import lines, metrics
from agentrl_pipelines.cli.commands.report import report

RUN = parse(
    {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "babyai"},
        "spec": {
            "environments": [{"name": "babyai", "builtin": "babyai"}],
            "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
        },
    }
)


def invoke(command, root):
    return CliRunner().invoke(command, ["--root", str(root)])


@pytest.fixture
def root(tmp_path):
    store = DirectoryStore(tmp_path / "store", durable=False)
    store.put(keys.RUN, RUN.model_dump_json(by_alias=True).encode())
    for iteration in (1, 0):
        record = {
            "iteration": iteration,
            "phase": 0,
            "max_turns": 3,
            "version": iteration + 1,
            "metrics": {"update/loss": float("nan"), "train/success": 0.5},
            "decision": {"action": "continue", "phase": 0, "max_turns": 3, "reason": ""},
        }
        store.put(keys.iteration(iteration), json.dumps(record).encode())
    return tmp_path


def test_metrics_prints_one_line_per_iteration_with_sorted_keys(root):
    result = invoke(metrics, root)
    assert result.exit_code == 0
    assert result.output == (
        '{"iteration": 0, "max_turns": 3,'
        ' "metrics": {"train/success": 0.5, "update/loss": "NaN"}, "phase": 0}\n'
        '{"iteration": 1, "max_turns": 3,'
        ' "metrics": {"train/success": 0.5, "update/loss": "NaN"}, "phase": 0}\n'
    )


class ConcurrentlyResumedStore(MemoryStore):
    """Deletes iteration 1 after it was listed, as a concurrent run can do."""

    def list(self, prefix):
        present = list(super().list(prefix))
        del self.objects[keys.iteration(1)]
        return iter(present)


def test_iterations_that_a_concurrent_run_deletes_are_skipped(root):
    kept, store = DirectoryStore(root / "store"), ConcurrentlyResumedStore()
    for key in kept.list(""):
        store.put(key, kept.get(key))
    assert [json.loads(line)["iteration"] for line in lines(store)] == [0]


def test_report_rebuilds_its_files_and_prints_the_summary(root):
    result = invoke(report, root)
    assert result.exit_code == 0, result.output
    assert {"report.json", "report.html", "curve.png"} <= {path.name for path in root.iterdir()}
    assert "Nothing has been evaluated yet." in result.output


@pytest.mark.parametrize("command", [metrics, report])
def test_a_folder_without_a_run_is_named_and_stays_unchanged(command, tmp_path):
    absent = invoke(command, tmp_path / "absent")
    assert absent.exit_code == 2
    assert f"--root: {tmp_path}/absent: no such folder" in absent.output
    empty = invoke(command, tmp_path)
    assert empty.exit_code == 2
    assert "holds no run" in empty.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [metrics, report])
def test_a_damaged_iteration_is_named(command, root):
    (root / "store" / "iterations" / "000001.json").write_text("{")
    result = invoke(command, root)
    assert result.exit_code == 1
    assert "iterations/000001.json" in result.output


@pytest.mark.parametrize("command", [metrics, report])
def test_a_missing_iteration_is_named(command, root):
    (root / "store" / "iterations" / "000000.json").unlink()
    result = invoke(command, root)
    assert result.exit_code == 1
    assert "iterations/000000.json: in " in result.output
    assert "missing, although iterations/000001.json is there" in result.output


@pytest.mark.parametrize("command", [metrics, report])
def test_missing_last_iterations_are_named(command, root):
    state = RunState(iteration=2).model_dump_json().encode()
    DirectoryStore(root / "store").replace(keys.STATE, state)
    (root / "store" / "iterations" / "000001.json").unlink()
    result = invoke(command, root)
    assert result.exit_code == 1
    assert "iterations/000001.json: in " in result.output
    assert "missing, although state.json counts 2 iterations" in result.output


def test_a_damaged_manifest_is_named(root):
    (root / "store" / "run.json").write_text("{")
    result = invoke(metrics, root)
    assert result.exit_code == 1
    assert "store/run.json: damaged" in result.output


def test_a_manifest_in_the_root_names_a_store_elsewhere(root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    storage = {"storage": {"url": f"file://{root}/store"}}
    manifest = RUN.model_dump(mode="json", by_alias=True)
    manifest["spec"] |= storage
    (elsewhere / "run.json").write_text(json.dumps(manifest))
    assert invoke(metrics, elsewhere).output == invoke(metrics, root).output


def test_metrics_and_report_do_not_load_torch(root):
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "import agentrl_components.reporting.build, agentrl_components.reporting.html\n"
            "import agentrl_pipelines.cli.run_summary\n"
            "from agentrl_pipelines.cli.commands.metrics import metrics\n"
            "metrics(standalone_mode=False)\n"
            "assert not {'torch', 'transformers', 'mlflow'} & set(sys.modules)\n",
            "--root",
            str(root),
        ],
        capture_output=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
