"""`agentrl compile`."""

import yaml
from click.testing import CliRunner
from cluster_run import MANIFEST

from agentrl_components.spec import AgentRLRun
from agentrl_pipelines.cli.main import main


def test_compile_writes_the_graph_and_its_pod_options(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(MANIFEST)
    done = CliRunner().invoke(main, ["compile", str(path)])
    assert done.exit_code == 0, done.output
    spec, pods = yaml.safe_load_all(done.output)
    assert spec["pipelineInfo"]["name"] == "agentrl-phase"
    given = {
        name: one["defaultValue"]
        for name, one in spec["root"]["inputDefinitions"]["parameters"].items()
    }
    assert (given["phase"], given["attempt"]) == (0, 0)
    resolved = AgentRLRun.model_validate_json(given["manifest"])
    place = resolved.spec.storage.url
    assert place is not None
    assert place.startswith("s3://mlpipeline/agentrl/")
    assert "exec-rollout" in pods["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def test_compile_refuses_what_the_cluster_would(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(MANIFEST)
    local = CliRunner().invoke(main, ["compile", str(path), "--set", "storage.url=file:///x"])
    assert (local.exit_code, local.stdout) == (2, "")
    assert local.stderr == (
        "spec.storage.url: pods do not share a folder; use an s3:// URL, or omit the field\n"
    )
    named = CliRunner().invoke(main, ["compile", str(path), "--uid", "zz"])
    assert (named.exit_code, named.stdout) == (2, "")
    assert "Invalid value for '--uid': 'zz' is not a valid UUID." in named.stderr


def test_a_file_that_cannot_be_written_is_a_mistake_in_the_option(tmp_path):
    path, missing = tmp_path / "run.yaml", tmp_path / "missing" / "pipeline.yaml"
    path.write_text(MANIFEST)
    done = CliRunner().invoke(main, ["compile", str(path), "-o", str(missing)])
    assert done.exit_code == 2
    assert f"Error: --output: {missing} cannot be written (" in done.stderr
    assert CliRunner().invoke(main, ["compile", str(path), "-o", str(path)]).exit_code == 0
    assert len(list(yaml.safe_load_all(path.read_text()))) == 2
