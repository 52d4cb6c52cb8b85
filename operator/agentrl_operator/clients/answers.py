"""What a neighbour answers over HTTP, or why it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def parsed(data: bytes) -> Mapping[str, Any]:
    """A JSON object. Of anything else, as a proxy's page, the beginning as its `message`."""
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"message": data[:300].decode(errors="replace")}


def why(error: BaseException) -> str:
    """In words: some errors, as of a timeout, have none of their own."""
    return str(error) or type(error).__name__
