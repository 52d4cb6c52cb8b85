"""Whether a run's manifest can be run, and what happens while it cannot."""

from __future__ import annotations

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.status import Status
from agentrl_operator.planning.plan import Plan, waiting
from agentrl_operator.planning.situation import Situation


def checked(situation: Situation, status: Status) -> Status:
    """The status with what is to be said of the manifest."""
    resource, now = situation.resource, situation.now
    if resource.run is None:
        message = "; ".join(resource.mistakes)
        return status.told(Kind.ACCEPTED, "False", Reason.INVALID_SPEC, message, now)
    status = status.told(Kind.ACCEPTED, "True", Reason.VALID, "the manifest can be run", now)
    if status.says(Kind.FAILED, "True", Reason.INVALID_SPEC):
        status = status.with_(state="Pending").told(
            Kind.FAILED, "False", Reason.NOT_YET, "the manifest was corrected", now
        )
    return status


def refused(situation: Situation, status: Status) -> Plan:
    """A mistake is the user's: nothing is started until the manifest changes. What runs already
    goes on by the manifest it was started with."""
    message, now = "; ".join(situation.resource.mistakes), situation.now
    if status.start_time is None:
        status = status.with_(state="Failed").told(
            Kind.FAILED, "True", Reason.INVALID_SPEC, message, now
        )
    return waiting(status, "False", Reason.INVALID_SPEC, message, now, requeue_s=None)
