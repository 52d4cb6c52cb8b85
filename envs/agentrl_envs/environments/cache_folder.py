"""Where environments keep what they build from their options, such as indexes and games."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from agentrl_envs.errors import OptionError


def cache_folder(name: str) -> Path:
    """The folder `agentrl/NAME` in `$XDG_CACHE_HOME`, else in `~/.cache`; where these cannot be
    written, as in a container, a folder of this user among the temporary files. Raises
    `OptionError` if that is another user's."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl" / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        return home
    except OSError:
        own = Path(tempfile.gettempdir()) / f"agentrl-{name}-{os.getuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.getuid():
            raise OptionError(f"{name}: {own} is another user's; set XDG_CACHE_HOME") from None
        return own
