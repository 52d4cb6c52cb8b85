"""What can go wrong in a run, one class per boundary.

    RunError
    ├── SpecError        the manifest is wrong                  the user's mistake: exit code 2
    ├── ModelError       weights or tokenizer cannot be used    the user's mistake: exit code 2
    ├── EngineError      the sampler failed
    ├── DriftError       what would be trained is not what was sampled
    ├── StoreError       the object store refused, is full or holds damaged data
    ├── TrackerError     MLflow refused; recorded, never fatal
    ├── CollapseError    an alarm said stop
    └── Stopped          someone asked the run to end; it can go on later

The world's own errors are `agentrl_envs.errors`.
"""

from __future__ import annotations


class RunError(Exception):
    """Anything that ends a stage. The message names the thing, the reason and, where there is one,
    the fix."""


class SpecError(RunError):
    """The manifest cannot be run. `mistakes` holds one line per mistake: path, reason, fix."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class ModelError(RunError):
    """Weights, config or tokenizer cannot be used."""


class EngineError(RunError):
    """The sampler failed; the episode it was sampling is lost, not scored."""


class DriftError(RunError):
    """Token ids changed between sampling and training. A bug or a template that rewrites history;
    training on it would be silently wrong."""


class StoreError(RunError):
    """The object store refused, is full, or holds damaged data. Names the key."""


class AbsentError(StoreError):
    """There is no such key: it was never written, or another process removed it meanwhile."""


class TrackerError(RunError):
    """The tracker could not record. Kept and reported, never fatal."""


class CollapseError(RunError):
    """An alarm with `action: stop` rang."""


class Stopped(RunError):
    """The run ends at a safe point because someone asked it to: Ctrl-C or a deadline. The same
    command goes on from there."""
