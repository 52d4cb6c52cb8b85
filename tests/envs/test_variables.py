import pytest

from agentrl_envs.variables import is_of_another_service, is_sent_home


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("AWS_SECRET_ACCESS_KEY", True),
        ("HF_TOKEN", True),
        ("HUGGING_FACE_HUB_TOKEN", True),
        ("KUBECONFIG", True),
        ("OPENAI_API_KEY", True),
        ("JUDGE_KEY", False),
        ("GITLAB_PASSWORD", False),
        ("MY_AWS_KEY", False),
        ("", False),
    ],
)
def test_variables_of_well_known_services_are_told_by_their_begin(name, refused):
    assert is_of_another_service(name) == refused


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com.example/v1", False),
        ("https://evilapi.openai.com/v1", False),
        ("https://api.openai.com@evil.example/v1", False),
        ("https://api.anthropic.com/v1", False),
    ],
)
def test_the_key_of_a_service_is_sent_to_its_own_host(url, home):
    assert is_sent_home("OPENAI_API_KEY", url) == home
    assert not is_sent_home("AWS_SECRET_ACCESS_KEY", url)
