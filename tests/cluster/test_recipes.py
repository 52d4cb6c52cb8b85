"""Build recipes for the programs of the local cluster."""

from __future__ import annotations

import re

import pytest

from cluster.programs.recipes import MODULES, RECIPES
from cluster.settings import HERE


@pytest.mark.parametrize(
    ("name", "package", "output"),
    [
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet", "kubelet"),
        ("etcd", "go.etcd.io/etcd/server/v3", "server"),
        ("minio", "github.com/minio/minio", "minio"),
        ("coredns", "./coredns", "coredns"),
        ("kfp-apiserver", "github.com/kubeflow/pipelines/backend/src/apiserver", "apiserver"),
    ],
)  # fmt: skip
def test_output_is_the_file_name_that_go_build_chooses(
    name: str, package: str, output: str
) -> None:
    assert RECIPES[name].package == package
    assert RECIPES[name].output == output


def test_outputs_are_unique_within_a_module() -> None:
    made = [(recipe.module, recipe.output) for recipe in RECIPES.values()]
    assert len(set(made)) == len(made)


def test_coredns_is_built_with_the_plugins_in_the_corefile() -> None:
    source = (MODULES["cluster"] / "coredns/main.go").read_text()
    built_in = set(re.findall(r"coredns/plugin/(\w+)\"", source))
    corefile = (HERE / "config/Corefile").read_text()
    assert built_in == set(re.findall(r"^  (\w+) ?", corefile, re.MULTILINE)) - {""}
