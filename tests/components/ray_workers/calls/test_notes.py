"""Warnings of environments in an actor are kept for the driver, and not without a bound."""

import logging

from agentrl_components.ray_workers.calls.notes import NoteHandler


def test_the_first_twenty_warnings_since_the_last_call_are_kept_and_all_are_logged(capsys):
    logger, handler = logging.getLogger("warns"), NoteHandler()
    logger.addHandler(handler)
    try:
        for number in range(25):
            logger.warning("step %d is slow", number)
        assert handler.take() == tuple(f"step {number} is slow" for number in range(20))
        assert handler.take() == ()
        logger.warning("step 25 is slow")
        assert handler.take() == ("step 25 is slow",)
    finally:
        logger.removeHandler(handler)
    logged = [f"step {number} is slow" for number in range(26)]
    assert capsys.readouterr().err.splitlines() == logged
