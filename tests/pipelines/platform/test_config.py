"""The platform configuration."""

import pytest

from agentrl_components.errors import SpecError
from agentrl_pipelines.platform.config import load


def test_an_unknown_field_is_named(tmp_path):
    path = tmp_path / "platform.yaml"
    path.write_text("kfp: {urll: http://a}\n")
    with pytest.raises(SpecError, match=r"platform\.yaml: kfp\.urll: .*; correct the field"):
        load(path)
    path.write_text("pollSeconds: 2\n")
    assert load(path).poll_seconds == 2
