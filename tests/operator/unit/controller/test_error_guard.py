"""The guard around one run: unexpected errors are contained, expected ones are not."""

import pytest

from agentrl_operator.controller.error_guard import RunGuard
from agentrl_operator.errors import KfpError


def guard(*, deleted):
    return RunGuard(namespace="kubeflow", name="demo", deleted=deleted)


def test_an_unexpected_error_is_logged_and_kept(caplog):
    with guard(deleted=False).errors("is retried later") as caught:
        raise ValueError("no such codec")

    assert repr(caught.error) == "ValueError('no such codec')"
    assert "internal error: kubeflow/demo is retried later" in caplog.text


def test_an_unexpected_error_of_a_deletion_is_contained():
    with guard(deleted=True).errors_of_deletion("is deleted without it") as caught:
        raise ValueError("no such codec")

    assert str(caught) == "internal error: ValueError('no such codec')"


@pytest.mark.parametrize(
    ("deleted", "needed", "error"),
    [
        (False, False, ValueError("of a run that goes on")),
        (True, True, ValueError("of what the deletion needs")),
        (True, False, KfpError("of a service that is asked again")),
    ],
)
def test_other_errors_are_raised(deleted, needed, error):
    with (
        pytest.raises(type(error)),
        guard(deleted=deleted).errors_of_deletion("is deleted", needed=needed),
    ):
        raise error
