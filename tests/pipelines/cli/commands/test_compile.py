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
