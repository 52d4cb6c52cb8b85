import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from agentrl_operator.__main__ import main

HEAVY = ("torch", "vllm", "ray", "numpy", "mlflow", "transformers", "kfp", "kubernetes")


def test_the_operator_loads_no_training_stack():
    code = (
        "import sys\n"
        "from agentrl_operator.__main__ import block_official_client\n"
        "block_official_client()\n"
        "import agentrl_operator.app, agentrl_operator.clients.kfp\n"
        "import agentrl_operator.clients.mlflow\n"
        "import agentrl_operator.clients.run_store, agentrl_components.storage.s3.store\n"
        "import agentrl_pipelines.kfp_pipeline.pipeline_spec\n"
        "from agentrl_envs.registry import BUILT_IN\n"
        "assert all([one.options_model() for one in BUILT_IN.values()])\n"
        f"print([name for name in {HEAVY!r} if sys.modules.get(name)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )

    assert done.stdout == "[]\n"


def test_a_mistake_in_the_platform_configuration_is_one_sentence(tmp_path):
    path = tmp_path / "platform.yaml"
    path.write_text("kfp: {adress: http://x}\n")
    done = subprocess.run(
        [sys.executable, "-m", "agentrl_operator", "--platform", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 1
    assert "kfp.adress: Extra inputs are not permitted" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lease_without_a_namespace_is_rejected():
    result = CliRunner().invoke(main, ["--lease", "agentrl"])

    assert result.exit_code == 2
    assert "'agentrl': expected NAMESPACE/NAME of a Lease" in result.output


@pytest.mark.parametrize(
    "wrong", [("--metrics-port", "99999"), ("--metrics-port", "-1"), ("--workers", "0")]
)
def test_a_number_out_of_range_is_refused_and_the_option_is_named(wrong):
    result = CliRunner().invoke(main, wrong)

    assert result.exit_code == 2
    assert f"Invalid value for '{wrong[0]}'" in result.output


@pytest.mark.parametrize("text", [None, "not: [yaml", "[]", "current-context: here"])
def test_a_missing_or_damaged_kubeconfig_is_one_line(tmp_path, text):
    platform, kubeconfig = tmp_path / "platform.yaml", tmp_path / "kubeconfig"
    platform.write_text("{}")
    if text is not None:
        kubeconfig.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "agentrl_operator", "--platform", str(platform)],
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: KUBECONFIG: {kubeconfig}: cannot be used (")
