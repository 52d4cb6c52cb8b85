from pathlib import Path

import pytest

from agentrl_components.errors import SpecError
from agentrl_components.spec import Compute, Tracking
from agentrl_pipelines.local.variables import set_variables, tracking_mistakes, tracking_warnings


def compute(**variables: str) -> Compute:
    return Compute.model_validate(
        {"env": [{"name": name, "value": value} for name, value in variables.items()]}
    )


def test_variables_of_the_manifest_are_set_unless_this_process_has_them():
    environment = {"A": "own"}
    set_variables(compute(A="1", B="2"), environment)
    assert environment == {"A": "own", "B": "2"}


def test_a_manifest_sets_no_address_to_which_credentials_of_this_machine_are_sent():
    """Regression: a manifest with an HF_ENDPOINT of its own got the HF_TOKEN of who ran it."""
    hub = compute(A="1", HF_ENDPOINT="https://hub.example")
    environment = {"HF_TOKEN": "hf_x"}
    with pytest.raises(SpecError) as raised:
        set_variables(hub, environment)
    assert raised.value.mistakes == [
        "spec.compute.env[1]: would have HF_TOKEN of this machine sent to https://hub.example; set "
        "HF_ENDPOINT to the service that they are for"
    ]
    assert environment == {"HF_TOKEN": "hf_x"}
    set_variables(hub, without_token := {})
    assert without_token == {"A": "1", "HF_ENDPOINT": "https://hub.example"}
    set_variables(hub, mirror := {"HF_TOKEN": "hf_x", "HF_ENDPOINT": "https://mirror"})
    assert mirror["HF_ENDPOINT"] == "https://mirror"


@pytest.mark.parametrize(
    ("uri", "environment", "refused"),
    [
        ("https://mlflow.example", {"MLFLOW_TRACKING_TOKEN": "t"}, True),
        (
            "https://mlflow.example",
            {"MLFLOW_TRACKING_TOKEN": "t", "MLFLOW_TRACKING_URI": "https://own.example"},
            True,
        ),
        (
            "https://mlflow.example",
            {"MLFLOW_TRACKING_TOKEN": "t", "MLFLOW_TRACKING_URI": "https://mlflow.example/"},
            False,
        ),
        ("https://mlflow.example", {"MLFLOW_TRACKING_URI": "https://own.example"}, False),
        (None, {"MLFLOW_TRACKING_TOKEN": "t"}, False),
        ("sqlite:////runs/mlflow.db", {"MLFLOW_TRACKING_TOKEN": "t"}, False),
    ],
)
def test_credentials_of_mlflow_are_sent_to_the_server_that_they_are_for(uri, environment, refused):
    """Regression: `agentrl run` sent them to the `tracking.uri` of any manifest."""
    mistakes = [str(mistake) for mistake in tracking_mistakes(Tracking(uri=uri), environment)]
    expected = (
        "spec.tracking.uri: MLFLOW_TRACKING_TOKEN would be sent to it; if that is right, set "
        "MLFLOW_TRACKING_URI to https://mlflow.example; else unset them"
    )
    assert mistakes == ([expected] if refused else [])


@pytest.mark.parametrize(
    ("uri", "environment", "warned"),
    [
        (None, {"MLFLOW_TRACKING_URI": "https://own.example"}, True),
        (None, {"MLFLOW_TRACKING_URI": "sqlite:////runs/other/mlflow.db"}, True),
        (None, {"MLFLOW_TRACKING_URI": "sqlite:////runs/this/mlflow.db"}, False),  # of this run
        (None, {"MLFLOW_TRACKING_URI": "https://own.example", "MLFLOW_RUN_ID": "m1"}, False),
        (None, {"MLFLOW_TRACKING_URI": ""}, False),
        (None, {}, False),
        ("https://mlflow.example", {"MLFLOW_TRACKING_URI": "https://own.example"}, False),
    ],
)
def test_an_address_of_mlflow_at_which_the_run_is_not_recorded_is_a_warning(
    uri, environment, warned
):
    found = tracking_warnings(Tracking(uri=uri), Path("/runs/this"), environment)
    expected = (
        "spec.tracking.uri: is not set: the run is recorded in its folder, and not at "
        "MLFLOW_TRACKING_URI; to record there, set it to that address"
    )
    assert [str(warning) for warning in found] == ([expected] if warned else [])
