"""Output artifacts and the launcher's output file."""

import json

from agentrl_pipelines.stages.artifacts import Artifacts


def test_artifacts_are_written_where_the_launcher_collects_them(tmp_path):
    executor_input = {
        "outputs": {
            "artifacts": {
                "checkpoint": {"artifacts": [{"name": "7", "uri": "s3://bucket/out/checkpoint"}]},
            },
            "outputFile": f"{tmp_path}/out/output.json",
        }
    }
    artifacts = Artifacts(json.dumps(executor_input), tmp_path / "s")
    assert artifacts.path("report") == tmp_path / "s/artifacts/report"
    artifacts.describe("checkpoint", {"iteration": 5})
    artifacts.close()
    output = json.loads((tmp_path / "out/output.json").read_text())
    (described,) = output["artifacts"]["checkpoint"]["artifacts"]
    assert described == {
        "name": "7", "uri": "s3://bucket/out/checkpoint", "metadata": {"iteration": 5},
    }  # fmt: skip
