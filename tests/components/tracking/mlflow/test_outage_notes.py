"""A person is told once of an outage, however often jobs fail in it."""

from agentrl_components.tracking.mlflow.outage_notes import OutageNotes


class Told:
    """The notes, and a clock that tests set."""

    def __init__(self) -> None:
        self.now, self.lines = 0.0, list[str]()
        self.notes = OutageNotes(self.lines.append, lambda: self.now)

    def outage(self, at: float, *, over: bool = True) -> list[str]:
        """The notes of an outage that begins at second `at`."""
        self.now = at
        self.lines.clear()
        self.notes.failed("", "refused")
        if over:
            self.notes.recovered("sent")
        return list(self.lines)


def test_an_outage_is_noted_when_it_begins_and_when_it_is_over() -> None:
    told = Told()
    told.notes.recovered("sent")
    for _ in range(3):
        told.notes.failed("refused", "refused")
    assert told.lines == ["refused"]
    told.notes.recovered("sent")
    told.notes.recovered("sent")
    assert told.lines == ["refused", "sent"]


def test_another_cause_in_the_same_outage_is_noted_too_but_no_more_than_three_are() -> None:
    told = Told()
    for cause in ("down", "401", "down", "404", "500"):
        told.notes.failed(cause, cause)
    assert told.lines == ["down", "401", "404"]


def test_outages_that_follow_soon_are_noted_ever_more_rarely() -> None:
    """The pauses after noted outages are 60, 120, 240, ... seconds, and 3600 at most."""
    told = Told()
    assert told.outage(0.0) == ["refused", "sent"]
    assert told.outage(59.0) == []
    assert told.outage(60.0) == ["refused", "sent"]
    assert told.outage(179.0) == []
    assert told.outage(180.0) == ["refused", "sent"]
    noted = sum(bool(told.outage(180.0 + 60.0 * minute)) for minute in range(1, 4321))
    # At 420, 900, 1860 and 3780 s, and then every hour until 259380 s: 4 + 71.
    assert noted == 75


def test_an_outage_that_goes_on_is_noted_when_the_pause_is_over() -> None:
    told = Told()
    assert told.outage(0.0) == ["refused", "sent"]
    assert told.outage(30.0, over=False) == []
    assert told.outage(60.0) == ["refused", "sent"]
