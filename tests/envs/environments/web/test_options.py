import pytest
from pydantic import ValidationError

from agentrl_envs.environments.web.options import Account, Judge


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://judge.example/v1", "JUDGE_KEY"),
        ("https://judge.example/v1", ""),
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_judge_gets_its_own_key(url, variable):
    assert Judge(url=url, model="judge", key_env=variable).key_env == variable


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://judge.example/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "AWS_SECRET_ACCESS_KEY"),
        ("https://api.openai.com/v1", "HF_TOKEN"),
    ],
)
def test_a_judge_gets_no_key_of_another_service(url, variable):
    """Regression: a manifest could have any variable sent to a host that it names."""
    with pytest.raises(ValidationError, match=f"key_env: {variable} is a variable of another ser"):
        Judge(url=url, model="judge", key_env=variable)


def test_an_account_has_no_password_of_another_service():
    assert Account(username="emma", password_env="GITLAB_PASSWORD").password_env
    with pytest.raises(ValidationError, match="MLFLOW_TRACKING_PASSWORD is a variable of another"):
        Account(username="emma", password_env="MLFLOW_TRACKING_PASSWORD")
