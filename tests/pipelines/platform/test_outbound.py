"""What pods get for services with certificates of a private authority, or behind a proxy."""

import pytest
from pydantic import ValidationError

from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.outbound import outbound_variables

PROXY = {"https": "http://proxy:3128", "no_proxy": [".svc", "localhost"]}


def test_nothing_is_set_by_default():
    assert outbound_variables(Platform()) == []


def test_every_library_finds_the_certificates():
    platform = Platform(ca_bundle={"config_map": "corporate", "key": "bundle.pem"})
    assert outbound_variables(platform) == [
        ("SSL_CERT_FILE", "/etc/agentrl-ca/bundle.pem"),
        ("REQUESTS_CA_BUNDLE", "/etc/agentrl-ca/bundle.pem"),
        ("AWS_CA_BUNDLE", "/etc/agentrl-ca/bundle.pem"),
    ]


def test_a_proxy_is_set_in_both_cases_with_the_hosts_that_it_is_not_for():
    assert outbound_variables(Platform(proxy=PROXY)) == [
        ("https_proxy", "http://proxy:3128"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("no_proxy", ".svc,localhost"),
        ("NO_PROXY", ".svc,localhost"),
    ]


def test_a_variable_of_the_manifest_replaces_that_of_the_platform_in_both_cases():
    platform = Platform(ca_bundle={"config_map": "corporate"}, proxy=PROXY)
    own = ("HTTPS_PROXY", "SSL_CERT_FILE", "OTHER")
    assert [name for name, _ in outbound_variables(platform, own)] == [
        "REQUESTS_CA_BUNDLE",
        "AWS_CA_BUNDLE",
        "no_proxy",
        "NO_PROXY",
    ]


def test_hosts_without_a_proxy_need_no_variable_if_there_is_no_proxy():
    assert outbound_variables(Platform(proxy={"no_proxy": [".svc"]})) == []


@pytest.mark.parametrize("name", ["with.dots", "shared-memory", ""])
def test_a_config_map_whose_volume_would_not_be_valid_is_refused(name):
    with pytest.raises(ValidationError, match="map"):
        Platform(ca_bundle={"config_map": name})


def test_credentials_of_a_proxy_are_refused():
    with pytest.raises(ValidationError, match="contains a user or a password"):
        Platform(proxy={"http": "http://me:secret@proxy:3128"})
