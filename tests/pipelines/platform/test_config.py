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


def test_each_target_that_serves_environments_has_its_image():
    images = Images(environment="a:1", environment_science="b:1", environment_web="c:1")
    assert [images.of(target) for target in get_args(ImageTarget)] == ["a:1", "b:1", "c:1"]
