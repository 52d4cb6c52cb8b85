"""Errors of a run, one class per boundary.

    RunError
    ├── SpecError        the manifest is invalid                a user error: exit code 2
    ├── ModelError       weights or tokenizer cannot be used    a user error: exit code 2
    │   └── ArchitectureError  no implementation for the model's architecture
    ├── EngineError      the inference engine failed
    │   └── ContextFullError  an endpoint's context is too small for the episode
    ├── DriftError       the tokens to train differ from the sampled ones
    ├── WorkersLostError processes that hold the model died    resumed from the last checkpoint
    ├── StoreError       the object store failed, is full or has damaged data
    ├── TrackerError     MLflow failed; recorded, never fatal
    ├── CollapseError    an alarm with `action: stop` became active
    └── Stopped          the run was asked to stop; it can be resumed

Errors of environments are in `agentrl_envs.errors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RunError(Exception):
    """Base class of errors that end a stage. The message names the object, the reason and, if there
    is one, the fix."""


class SpecError(RunError):
    """The manifest is invalid. `mistakes` has one line per mistake: path, reason, fix."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[type[SpecError], tuple[list[str]]]:
        return type(self), (self.mistakes,)  # by default, it is made of the message


class ModelError(RunError):
    """Weights, config or tokenizer cannot be used."""


class ArchitectureError(ModelError):
    """The model is not a causal language model, or the chosen implementation does not have its
    architecture."""


@contextmanager
def model_errors(kind: type[ModelError], what: str) -> Iterator[None]:
    """Raise every error of the block as one of class `kind`, whose message begins with `what`. For
    calls of transformers and tokenizers, which raise errors of any class for damaged files."""
    try:
        yield
    except Exception as error:
        raise kind(f"{what}: {type(error).__name__}: {error}") from error


class EngineError(RunError):
    """The inference engine failed. Its episode is lost and not scored."""


class ContextFullError(EngineError):
    """The episode and its next reply do not fit in the context of an endpoint. The episode ends
    there, and is scored."""


class DriftError(RunError):
    """Token ids changed between sampling and training, because of a bug or a chat template that
    rewrites history. Training on them would be silently wrong."""


class WorkersLostError(RunError):
    """Processes that hold weights or optimizer state died, or vLLM in one of them, or a sampler
    missed weights. A sampler on Ray is replaced; otherwise the run resumes from its last checkpoint
    with new processes."""


class StoreError(RunError):
    """The object store failed, is full, or has damaged data. The message names the key."""


class AbsentError(StoreError):
    """The key does not exist: it was never written, or another process deleted it."""


class TrackerError(RunError):
    """The tracking server could not record something. Reported, never fatal."""


class CollapseError(RunError):
    """An alarm with `action: stop` became active."""


class Stopped(RunError):
    """The run stopped at a safe point because of a signal or a deadline. The same command resumes
    it."""
