"""The platform configuration."""

from typing import get_args

import pytest

from agentrl_components.errors import SpecError
from agentrl_envs.needs import ImageTarget
from agentrl_pipelines.platform.config import Images, load


def test_an_unknown_field_is_named(tmp_path):
    path = tmp_path / "platform.yaml"
    path.write_text("kfp: {urll: http://a}\n")
    with pytest.raises(SpecError, match=r"platform\.yaml: kfp\.urll: .*; correct the field"):
        load(path)
    path.write_text("pollSeconds: 2\n")
    assert load(path).poll_seconds == 2


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("storage: {url: 's3://models/a', endpoint: null}", "storage: .*region is missing"),
        ("storage: {url: 's3://My_Bucket'}", r"storage\.url: "),
        ("storage: {url: 's3://models/a?x'}", r"storage\.url: "),
        ("storage: {url: 's3://models/../a'}", r"storage\.url: .*part \. or \.\."),
        ("storage: {url: 's3://1.2.3.4'}", r"storage\.url: .*invalid bucket name"),
        ("storage: {endpoint: 'http://me:secret@minio'}", r"storage\.endpoint: .*a user or a pass"),
        ("storage: {endpoint: 'me:secret@minio'}", r"storage\.endpoint: .*a user or a password"),
        ("storage: {endpoint: 'minio:abc'}", r"storage\.endpoint: "),
        ("storage: {endpoint: 'minio:70000'}", r"storage\.endpoint: "),
        (
            "storage: {others: [{endpoint: 'http://me:secret@minio', secret: null, "
            "accessKeyEnv: A, secretKeyEnv: B}]}",
            r"storage\.others\.0\.endpoint: .*a user or a password",
        ),
        ("tracking: {uri: 'http://me:secret@mlflow'}", r"tracking\.uri: .*a user or a password"),
        ("tracking: {uiUrl: 'http://me:secret@mlflow'}", r"tracking\.uiUrl: .*a user or a pass"),
        ("kfp: {url: 'http://me:secret@kfp'}", r"kfp\.url: .*a user or a password"),
        ("kfp: {uiUrl: 'https://me:secret@kfp'}", r"kfp\.uiUrl: .*a user or a password"),
        ("tracking: {others: ['mlflow:5000']}", r"tracking\.others\.0: "),
    ],
)
def test_what_the_stages_of_every_run_would_refuse_is_refused(tmp_path, text, mistake):
    path = tmp_path / "platform.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=mistake) as refused:
        load(path)
    assert "secret@" not in str(refused.value)


def test_each_target_that_serves_environments_has_its_image():
    images = Images(environment="a:1", environment_science="b:1", environment_web="c:1")
    assert [images.of(target) for target in get_args(ImageTarget)] == ["a:1", "b:1", "c:1"]
