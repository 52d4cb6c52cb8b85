"""Names of registered models that a manifest may give are valid in MLflow."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrl_components.spec.fields.storage import MODEL_NAME, Tracking

pytest.importorskip("mlflow")


@given(name=st.from_regex(MODEL_NAME, fullmatch=True))
@example(name=".a. b")
def test_mlflow_takes_every_name_that_a_manifest_may_give(name):
    from mlflow.store.model_registry import file_store
    from mlflow.utils.search_utils import SearchModelVersionUtils
    from mlflow.utils.validation import _validate_model_name

    _validate_model_name(name)
    file_store._validate_model_name(name)
    (found,) = SearchModelVersionUtils.parse_search_filter(f"name = '{name}'")
    assert found["value"] == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", ".", "..", "..a", "team/agent", "a:1", "o'brien", 'a"b', "a`b", "a\\", "a%"),
        *("a\n", "a\tb", " a", "a ", "a\x7f"),
    ],
)
def test_a_name_that_mlflow_refuses_is_refused_in_the_manifest(name):
    with pytest.raises(ValueError, match="register"):
        Tracking(register_as=name)


@pytest.mark.parametrize("name", ["babyai-agent", "Team Agent 1.5", "prod.ml.agent", ".a", "ä_1"])
def test_usual_names_are_taken(name):
    assert Tracking(register_as=name).register_as == name
