"""Selection of the cluster, and the commands that operate it.

Commands are recorded, not run: CI has neither Docker nor kind.
"""

import json
import re
import subprocess
import sys

import pytest
from recorded_shell import RecordedShell

from cluster import settings
from cluster.external_cluster import ExternalCluster
from cluster.kind_cluster import IMAGES, MINIO, NAME, KindCluster
from cluster.select_cluster import description, main, select

DOCKER = {"docker info": "", "kind version": "kind v0.30.0"}
KFP = {
    f"kubectl -n kubeflow get {thing} -o name": thing
    for thing in (
        "service/ml-pipeline",
        "service/minio-service",
        "secret/mlpipeline-minio-artifact",
    )
}
READY = {"kubectl get --raw=/readyz --request-timeout=10s": "ok"}
EXTERNAL = {"KUBECONFIG": "/home/me/.kube/config"}
REGISTRY = {**EXTERNAL, "AGENTRL_REGISTRY": "registry.example.org/team/"}


def selected(environment: dict[str, str], answers: dict[str, str]) -> str:
    """Name of the selected cluster, or the error message."""
    try:
        return select(RecordedShell(answers), environment).name
    except settings.ClusterError as error:
        return str(error)


def test_kubeconfig_is_preferred_to_kind_and_kind_to_the_local_cluster():
    assert selected(EXTERNAL, DOCKER) == "external"
    assert selected({}, DOCKER) == "kind"
    assert selected({}, {}) == "local"


def test_kind_is_not_selected_without_docker():
    assert selected({}, {"kind version": "kind v0.30.0"}) == "local"


def test_kubeconfig_of_the_local_cluster_selects_the_local_cluster():
    assert selected({"KUBECONFIG": str(settings.KUBECONFIG)}, {}) == "local"


def test_environment_variable_overrides_the_selection():
    assert selected({**EXTERNAL, "AGENTRL_CLUSTER": "local"}, DOCKER) == "local"
    assert selected({"AGENTRL_CLUSTER": "external"}, {}) == (
        "AGENTRL_CLUSTER=external: KUBECONFIG is not set"
    )
    assert selected({"AGENTRL_CLUSTER": "k3d"}, {}) == (
        "AGENTRL_CLUSTER: 'k3d' is not one of external, kind, local"
    )


def test_local_cluster_is_operated_by_its_own_commands():
    shell = RecordedShell()
    for word in ("up", "images", "down"):
        assert main(word, shell, {}) == 0
    commands = [words.partition("hack/")[2] for words in shell.commands]
    assert commands == ["cluster local up", "cluster local images", "cluster local down"]


def documented_commands() -> list[str]:
    """The commands of docs/install.md for kind, with variables filled in."""
    text = (settings.REPOSITORY / "docs/install.md").read_text()
    text = text.partition("## On kind")[2].partition("### 4.")[0].replace("\\\n", "")
    (version,) = re.findall(r"export PIPELINE_VERSION=(\S+)", text)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.startswith("    ")]
    typed = [line.replace("$PIPELINE_VERSION", version).replace('"', "") for line in lines]
    return [line for line in typed if not line.startswith("export ")]


def test_kind_cluster_runs_exactly_the_documented_commands():
    shell = RecordedShell({**DOCKER, "kind get clusters": "other\n"})
    assert main("up", shell, {}) == main("images", shell, {}) == 0
    assert [
        words.replace(str(settings.REPOSITORY), ".") for words in shell.commands
    ] == documented_commands()
    assert shell.messages[-1] == f"export KUBECONFIG={settings.CACHE}/kind.kubeconfig"


MINIO_IMAGE = (
    "kubectl -n kubeflow get deployment/minio -o=jsonpath={.spec.template.spec.containers[0].image}"
)


def test_existing_kind_cluster_is_reused_and_no_other_is_deleted():
    answers = {"kind get clusters": f"{NAME}\nother\n", MINIO_IMAGE: MINIO}
    existing = RecordedShell(DOCKER | answers)
    main("up", existing, {})
    assert [words.split()[:2] for words in existing.commands] == [
        ["kind", "export"],
        ["kubectl", "-n"],
    ]
    assert "--for=condition=Available" in existing.commands[-1]
    KindCluster(existing).down()
    assert existing.commands[-1] == "kind delete cluster --name agentrl"
    absent = RecordedShell({**DOCKER, "kind get clusters": "other\n"})
    KindCluster(absent).down()
    assert absent.commands == []


def test_external_cluster_is_neither_started_nor_stopped():
    shell = RecordedShell({**READY, **KFP})
    assert main("up", shell, EXTERNAL) == main("down", shell, EXTERNAL) == 0
    assert shell.commands == []


def test_error_names_the_objects_that_an_external_cluster_lacks_and_the_documentation():
    unreachable, without_kfp = RecordedShell(), RecordedShell(READY)
    assert main("up", unreachable, EXTERNAL) == main("up", without_kfp, EXTERNAL) == 1
    assert unreachable.messages[-1].startswith(
        "cluster: KUBECONFIG=/home/me/.kube/config: the cluster does not answer"
    )
    assert without_kfp.messages[-1] == (
        "cluster: namespace kubeflow lacks service/ml-pipeline and "
        "secret/mlpipeline-minio-artifact; "
        "install Kubeflow Pipelines 2.14 to 2.17 there: docs/install.md, step 2"
    )


def context(name: str) -> dict[str, str]:
    return {"kubectl config current-context": f"{name}\n"}


def test_images_are_pushed_to_the_registry_of_an_external_cluster():
    shell = RecordedShell({**context("prod"), "docker info": ""})
    assert main("images", shell, REGISTRY) == 0
    pushed = [words for words in shell.commands if words.startswith("docker push")]
    assert pushed == [
        f"docker push registry.example.org/team/{name}:dev"
        for name in ("agentrl-operator", "agentrl", "agentrl-envs")
    ]
    built = [
        words.partition(" -t ")[2].split()[0] for words in shell.commands if " build " in words
    ]
    assert built == [words.split()[-1] for words in pushed]


def test_images_in_the_registry_are_used_if_docker_is_not_running():
    shell = RecordedShell(context("prod"))
    assert main("images", shell, REGISTRY) == 0
    assert shell.commands == []
    assert shell.messages[-1].startswith(
        "Docker is not running: using registry.example.org/team/agentrl-operator:dev"
    )


def test_registry_is_needed_unless_the_external_cluster_is_a_kind_cluster():
    kinds, other = RecordedShell(context("kind-lab")), RecordedShell(context("prod"))
    assert main("images", kinds, EXTERNAL) == 0
    assert kinds.commands[-1] == f"kind load docker-image --name lab {' '.join(IMAGES.values())}"
    assert main("images", other, EXTERNAL) == 1
    assert "set AGENTRL_REGISTRY" in other.messages[-1]


def test_chart_values_name_the_images_and_the_object_store():
    old = ExternalCluster(RecordedShell(KFP), EXTERNAL).values()
    assert "storage.url" not in old
    assert "images.stage.repository" not in old
    new = json.loads(description(ExternalCluster(RecordedShell(), REGISTRY)))["values"]
    assert new["storage.endpoint"] == "http://seaweedfs.kubeflow.svc:9000"
    assert new["images.environment.repository"] == "registry.example.org/team/agentrl-envs"
    assert new["images.pullPolicy"] == "Always"


@pytest.mark.parametrize("words", [[], ["begin"], ["up", "now"]])
def test_usage_is_printed_for_unknown_commands(words):
    done = subprocess.run(
        [sys.executable, settings.HERE, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "python hack/cluster up " in done.stderr
