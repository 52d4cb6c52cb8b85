"""What pods get for services with certificates of a private authority, or behind a proxy."""

import pytest
from pydantic import ValidationError

from agentrl_components.spec.fields.pods import SecretVariable, Variable
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.outbound import pod_variables

PROXY = {"https": "http://proxy:3128", "no_proxy": [".svc", "localhost"]}


def test_nothing_is_set_by_default():
    assert pod_variables(Platform(), ()) == []


def test_every_library_finds_the_certificates():
    platform = Platform(ca_bundle={"config_map": "corporate", "key": "bundle.pem"})
    assert pod_variables(platform, ()) == [
        ("SSL_CERT_FILE", "/etc/agentrl-ca/bundle.pem"),
        ("REQUESTS_CA_BUNDLE", "/etc/agentrl-ca/bundle.pem"),
        ("AWS_CA_BUNDLE", "/etc/agentrl-ca/bundle.pem"),
        ("SSL_CERT_DIR", "/etc/agentrl-ca"),
    ]


def test_a_proxy_is_set_in_both_cases_with_the_hosts_that_it_is_not_for():
    assert pod_variables(Platform(proxy=PROXY), ()) == [
        ("https_proxy", "http://proxy:3128"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("no_proxy", ".svc,localhost"),
        ("NO_PROXY", ".svc,localhost"),
    ]


def test_a_variable_of_the_manifest_replaces_that_of_the_platform_in_both_cases():
    platform = Platform(ca_bundle={"config_map": "corporate"}, proxy=PROXY)
    own = (Variable(name="HTTPS_PROXY", value="http://own:1"), Variable(name="OTHER", value="x"))
    secret = (SecretVariable(name="SSL_CERT_FILE", secret="own", key="path"),)
    assert [name for name, _ in pod_variables(platform, own, secret)] == [
        "REQUESTS_CA_BUNDLE",
        "AWS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "no_proxy",
        "NO_PROXY",
        "HTTPS_PROXY",
        "OTHER",
    ]


def test_hosts_that_the_manifest_excepts_are_added_to_those_of_the_platform():
    own = (Variable(name="NO_PROXY", value="minio.test"),)
    found = dict(pod_variables(Platform(proxy=PROXY), own))
    assert found["no_proxy"] == found["NO_PROXY"] == "minio.test,.svc,localhost"
    assert pod_variables(Platform(), own) == [("NO_PROXY", "minio.test")]


def test_hosts_without_a_proxy_need_no_variable_if_there_is_no_proxy():
    assert pod_variables(Platform(proxy={"no_proxy": [".svc"]}), ()) == []


@pytest.mark.parametrize("name", ["with.dots", "shared-memory", ""])
def test_a_config_map_whose_volume_would_not_be_valid_is_refused(name):
    with pytest.raises(ValidationError, match="map"):
        Platform(ca_bundle={"config_map": name})


def test_credentials_of_a_proxy_are_refused():
    with pytest.raises(ValidationError, match="contains a user or a password"):
        Platform(proxy={"http": "http://me:secret@proxy:3128"})


def test_a_proxy_that_is_reached_by_tls_is_refused():
    with pytest.raises(ValidationError, match="must begin with http://"):
        Platform(proxy={"https": "https://proxy:3128"})


def test_a_range_of_addresses_without_a_proxy_is_refused():
    with pytest.raises(ValidationError, match=r"no_?[pP]roxy"):
        Platform(proxy={"http": "http://proxy:3128", "no_proxy": ["10.0.0.0/8"]})
