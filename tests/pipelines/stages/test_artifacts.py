"""What a stage hands to KFP's launcher."""

import json

from agentrl_pipelines.stages.artifacts import Artifacts


def test_what_the_launcher_asks_for_is_where_it_looks(tmp_path):
    told = {
        "outputs": {
            "artifacts": {
                "checkpoint": {"artifacts": [{"name": "7", "uri": "s3://bucket/out/checkpoint"}]},
            },
            "outputFile": f"{tmp_path}/out/output.json",
        }
    }
    artifacts = Artifacts(json.dumps(told), tmp_path / "s")
    assert artifacts.path("report") == tmp_path / "s/artifacts/report"
    artifacts.describe("checkpoint", {"iteration": 5})
    artifacts.close()
    output = json.loads((tmp_path / "out/output.json").read_text())
    (described,) = output["artifacts"]["checkpoint"]["artifacts"]
    assert described == {
        "name": "7", "uri": "s3://bucket/out/checkpoint", "metadata": {"iteration": 5},
    }  # fmt: skip
