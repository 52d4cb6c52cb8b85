import pytest
from rule_violations.manifest import mistakes

from agentrl_envs.registry import names


@pytest.mark.parametrize(
    "environment",
    [
        "{name: own, builtin: 'my_package.world:MyTasks'}",
        "{name: own, builtin: 'my_package.world:MyTasks', image: 'a/b:1'}",
        "{name: own, builtin: my-world, image: 'a/b:1', options: {size: 3}}",
        "{name: own, builtin: babyai, image: 'a/b:1', options: {text: terse}}",
        "{name: own, url: 'http://a:1', protocol: agentgym, options: {family: babyai}}",
    ],
)
def test_an_environment_of_another_package_is_valid(tmp_path, environment):
    assert mistakes(tmp_path, (f"environments[0]={environment}",)) == []


def test_a_plain_name_that_is_not_built_in_needs_an_image(tmp_path):
    assert mistakes(tmp_path, ("environments[0].builtin=quarry",)) == [
        "spec.environments[0].builtin: there is no built-in environment quarry; use one of "
        f"{', '.join(sorted(names()))}, module:Class, or give the image that has it"
    ]
    assert mistakes(tmp_path, ("environments[0].builtin=babiai",)) == [
        "spec.environments[0].builtin: there is no built-in environment babiai; did you mean "
        "babyai? Else use module:Class, or give the image that has it"
    ]


@pytest.mark.parametrize("builtin", ["babyai", "miniwob", "sciworld"])
def test_a_pretrained_model_needs_the_text_of_an_environment_that_is_terse_by_default(
    tmp_path, builtin
):
    def found(options):
        own = f"environments[0]={{name: own, builtin: {builtin}, options: {options}}}"
        return mistakes(tmp_path, (own, "model.source=hf://org/name", "warmStart=null"))

    assert found("{}") == [
        "spec.environments[0].options.text: is missing: the default, terse, has no instructions, "
        "which a pretrained model needs; set it to agentgym, or to terse for a model that was "
        "trained with it"
    ]
    assert found("{text: agentgym}") == found("{text: terse}") == []
