"""Which cluster is chosen, and what would be run for it. Nothing is run: Docker and kind are not to
be had where these tests are."""

import json
import re

import place
import pytest
from choice import main, where
from given import Given
from kind import IMAGES, MINIO, NAME, Kind
from shell import Recorded

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
GIVEN = {"KUBECONFIG": "/home/me/.kube/config"}
REGISTRY = {**GIVEN, "AGENTRL_REGISTRY": "registry.example.org/team/"}


def chosen(environment: dict[str, str], answers: dict[str, str]) -> str:
    """How the cluster that is chosen is called, or why there is none."""
    from choice import chosen as cluster

    try:
        return cluster(Recorded(answers), environment).name
    except place.ClusterError as error:
        return str(error)


def test_a_kubeconfig_that_is_given_goes_first_then_kind_then_our_own():
    assert chosen(GIVEN, DOCKER) == "given"
    assert chosen({}, DOCKER) == "kind"
    assert chosen({}, {}) == "own"


def test_kind_without_docker_is_no_kind():
    assert chosen({}, {"kind version": "kind v0.30.0"}) == "own"


def test_our_own_clusters_kubeconfig_means_our_own_cluster():
    assert chosen({"KUBECONFIG": str(place.KUBECONFIG)}, {}) == "own"


def test_a_person_may_decide_otherwise():
    assert chosen({**GIVEN, "AGENTRL_CLUSTER": "own"}, DOCKER) == "own"
    assert (
        chosen({"AGENTRL_CLUSTER": "given"}, {}) == "AGENTRL_CLUSTER=given: KUBECONFIG is not set"
    )
    assert chosen({"AGENTRL_CLUSTER": "k3d"}, {}) == (
        "AGENTRL_CLUSTER: 'k3d' is none of given, kind, own"
    )


def test_our_own_cluster_is_started_filled_and_stopped_by_its_own_commands():
    shell = Recorded()
    for word in ("up", "images", "down"):
        assert main([word], shell, {}) == 0
    scripts = [words.partition("tests/cluster/")[2] for words in shell.done]
    assert scripts == ["cluster.py up", "images.py", "cluster.py down"]


def walkthrough() -> list[str]:
    """The commands that docs/install.md has a person type for kind, with variables filled in."""
    text = (place.REPOSITORY / "docs/install.md").read_text()
    text = text.partition("## On kind")[2].partition("### 4.")[0].replace("\\\n", "")
    (version,) = re.findall(r"export PIPELINE_VERSION=(\S+)", text)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.startswith("    ")]
    typed = [line.replace("$PIPELINE_VERSION", version).replace('"', "") for line in lines]
    return [line for line in typed if not line.startswith("export ")]


def test_on_kind_exactly_the_commands_of_the_documentation_are_run():
    shell = Recorded({**DOCKER, "kind get clusters": "other\n"})
    assert main(["up"], shell, {}) == main(["images"], shell, {}) == 0
    assert [words.replace(str(place.REPOSITORY), ".") for words in shell.done] == walkthrough()
    assert shell.told[-1] == f"export KUBECONFIG={place.CACHE}/kind.kubeconfig"


MINIO_IMAGE = (
    "kubectl -n kubeflow get deployment/minio -o=jsonpath={.spec.template.spec.containers[0].image}"
)


def test_a_cluster_of_kinds_that_is_there_is_used_again_and_only_ours_is_deleted():
    answers = {"kind get clusters": f"{NAME}\nother\n", MINIO_IMAGE: MINIO}
    there = Recorded(DOCKER | answers)
    main(["up"], there, {})
    assert [words.split()[:2] for words in there.done] == [["kind", "export"], ["kubectl", "-n"]]
    assert "--for=condition=Available" in there.done[-1]
    Kind(there).down()
    assert there.done[-1] == "kind delete cluster --name agentrl"
    gone = Recorded({**DOCKER, "kind get clusters": "other\n"})
    Kind(gone).down()
    assert gone.done == []


def test_a_given_cluster_is_neither_started_nor_stopped():
    shell = Recorded({**READY, **KFP})
    assert main(["up"], shell, GIVEN) == main(["down"], shell, GIVEN) == 0
    assert shell.done == []


def test_what_a_given_cluster_lacks_is_named_with_the_page_that_tells_how():
    silent, bare = Recorded(), Recorded(READY)
    assert main(["up"], silent, GIVEN) == main(["up"], bare, GIVEN) == 1
    assert silent.told[-1].startswith(
        "cluster: KUBECONFIG=/home/me/.kube/config: no cluster answers"
    )
    assert bare.told[-1] == (
        "cluster: kubeflow has no service/ml-pipeline and no secret/mlpipeline-minio-artifact; "
        "install Kubeflow Pipelines 2.14 to 2.17 there: docs/install.md, step 2"
    )


def context(name: str) -> dict[str, str]:
    return {"kubectl config current-context": f"{name}\n"}


def test_images_reach_a_given_cluster_by_a_registry():
    shell = Recorded({**context("prod"), "docker info": ""})
    assert main(["images"], shell, REGISTRY) == 0
    pushed = [words for words in shell.done if words.startswith("docker push")]
    assert pushed == [
        f"docker push registry.example.org/team/{name}:dev"
        for name in ("agentrl-operator", "agentrl", "agentrl-envs")
    ]
    built = [words.partition(" -t ")[2].split()[0] for words in shell.done if " build " in words]
    assert built == [words.split()[-1] for words in pushed]


def test_without_docker_the_registrys_images_are_taken_as_they_are():
    shell = Recorded(context("prod"))
    assert main(["images"], shell, REGISTRY) == 0
    assert shell.done == []
    assert shell.told[-1].startswith(
        "No Docker here: registry.example.org/team/agentrl-operator:dev"
    )


def test_a_given_cluster_of_kinds_needs_no_registry_and_any_other_does():
    kinds, other = Recorded(context("kind-lab")), Recorded(context("prod"))
    assert main(["images"], kinds, GIVEN) == 0
    assert kinds.done[-1] == f"kind load docker-image --name lab {' '.join(IMAGES.values())}"
    assert main(["images"], other, GIVEN) == 1
    assert "set AGENTRL_REGISTRY" in other.told[-1]


def test_the_charts_values_say_where_the_images_and_the_store_are():
    old = Given(Recorded(KFP), GIVEN).values()
    assert "storage.url" not in old
    assert "images.stage.repository" not in old
    new = json.loads(where(Given(Recorded(), REGISTRY)))["values"]
    assert new["storage.endpoint"] == "http://seaweedfs.kubeflow.svc:9000"
    assert new["images.environment.repository"] == "registry.example.org/team/agentrl-envs"
    assert new["images.pullPolicy"] == "Always"


@pytest.mark.parametrize("words", [[], ["begin"], ["up", "now"]])
def test_anything_else_is_answered_with_what_there_is(words):
    shell = Recorded()
    assert main(words, shell, {}) == 2
    assert "choice.py up" in shell.told[0]
