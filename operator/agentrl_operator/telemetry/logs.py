"""Log format of the operator: a JSON object a line, or plain text."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(style: Literal["json", "plain"], level: int = logging.INFO) -> None:
    """Log everything from `level` on to stderr, and only warnings of Kopf."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(_Json() if style == "json" else plain)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
