"""What the cluster is built from."""

from __future__ import annotations

import re

import pytest
from place import HERE
from recipes import MODULES, RECIPES


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
def test_a_program_is_called_by_its_package_until_it_is_put_in_place(
    name: str, package: str, output: str
) -> None:
    assert RECIPES[name].package == package
    assert RECIPES[name].output == output


def test_programs_of_one_module_do_not_overwrite_each_other() -> None:
    made = [(recipe.module, recipe.output) for recipe in RECIPES.values()]
    assert len(set(made)) == len(made)


def test_our_coredns_has_the_plugins_that_its_configuration_names() -> None:
    source = (MODULES["cluster"] / "coredns/main.go").read_text()
    built_in = set(re.findall(r"coredns/plugin/(\w+)\"", source))
    corefile = (HERE / "config/Corefile").read_text()
    assert built_in == set(re.findall(r"^  (\w+) ?", corefile, re.MULTILINE)) - {""}
