"""Addresses of buckets and folders: which are valid, and what they name."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from agentrl_components.spec import Model, Storage, WarmStart
from agentrl_components.spec.addresses import S3Location, file_path, s3_location

NO_PREFIX_OF_OBJECTS = (
    "s3://bucket/team?",
    "s3://bucket/team?x=1",
    "s3://bucket/team#",
    "s3://bucket/#",
    "s3://bucket?a/b",
    "s3://bucket/a\tb",
    "s3://bucket/a\nb",
)


@pytest.mark.parametrize("address", NO_PREFIX_OF_OBJECTS)
def test_no_manifest_takes_an_s3_address_of_which_a_parser_of_urls_would_drop_parts(address):
    for take in (
        lambda: Storage(url=address),
        lambda: Model(source=address),
        lambda: WarmStart(algorithm="sft", trajectories=address),
    ):
        with pytest.raises(ValidationError, match="String should match pattern"):
            take()


@pytest.mark.parametrize(
    ("address", "location"),
    [
        ("s3://runs", S3Location("runs", "")),
        ("s3://runs/", S3Location("runs", "")),
        ("s3://runs/team a/.hidden/..x/%2e%2e/", S3Location("runs", "team a/.hidden/..x/%2e%2e")),
        # Not valid in a manifest; objects that an earlier CRD accepted may have them.
        ("s3://runs/team-b/victim#/team-a/mine", S3Location("runs", "team-b/victim#/team-a/mine")),
        ("s3://runs?/team-a/mine", S3Location("runs?", "team-a/mine")),
    ],
)
def test_an_s3_address_keeps_all_its_characters(address, location):
    assert s3_location(address) == location


def test_an_address_of_another_scheme_is_no_s3_address():
    with pytest.raises(ValueError, match=r"^https://runs/a is not an s3:// address$"):
        s3_location("https://runs/a")


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("file:///data/a%20run", "/data/a run"),
        ("file:///data/a run", "/data/a run"),
        ("file:///data/run#1", "/data/run#1"),
        ("file:///data/run?1", "/data/run?1"),
        (Path("/data/run#1").as_uri(), "/data/run#1"),
    ],
)
def test_a_file_address_keeps_what_follows_a_hash_or_a_question_mark(address, path):
    assert file_path(address) == Path(path)
    assert Storage(url=address).url == address
