"""Rules about what is read and written: warm-start data, the object store, the tracker."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.fields.warmstart import WarmStart
from agentrl_components.spec.rules.rule import Mistake, Rule, changed, rule

_NAMES = ("episodes", "max_turns", "rounds")
_DEFAULT = {name: WarmStart.model_fields[name].default for name in _NAMES}
_PLAYS_NOTHING = " && ".join(
    f"self.warmStart.{WarmStart.model_fields[name].alias} == {_DEFAULT[name]}" for name in _NAMES
)
_UNUSED = {
    "sft": (*_NAMES, "path_weight"),
    "hindsight": ("rounds",),
    "filtered-imitation": ("path_weight",),
}
"""What a warm start has no use for."""
_S3 = (
    "((has(self.storage.url) && self.storage.url.startsWith('s3://'))"
    " || self.model.source.startsWith('s3://')"
    " || (has(self.warmStart) && has(self.warmStart.trajectories)"
    " && self.warmStart.trajectories.startsWith('s3://')))"
)


@rule(
    "warmStart",
    cel="!has(self.warmStart)"
    " || has(self.warmStart.trajectories) == (self.warmStart.algorithm == 'sft')",
)
def sft_imitates_given_trajectories(spec: RunSpec) -> Iterator[Mistake]:
    """warmStart.trajectories is needed by sft and by sft only."""
    warm = spec.warm_start
    if warm is None:
        return
    if warm.algorithm == "sft" and warm.trajectories is None:
        yield Mistake(
            field="spec.warmStart.trajectories",
            reason="is missing: sft has nothing to imitate",
            fix="name a JSONL file, file:// or s3://",
        )
    if warm.algorithm != "sft" and warm.trajectories is not None:
        yield Mistake(
            field="spec.warmStart.trajectories",
            reason=f"has no effect: {warm.algorithm} plays its own episodes",
            fix="leave it out, or set spec.warmStart.algorithm to sft",
        )


@rule(
    "warmStart",
    cel=f"!has(self.warmStart) || ((self.warmStart.algorithm != 'sft' || ({_PLAYS_NOTHING}))"
    " && (self.warmStart.algorithm == 'filtered-imitation' || self.warmStart.rounds == 1)"
    " && (self.warmStart.algorithm == 'hindsight' || self.warmStart.pathWeight == 1.0))",
)
def a_warm_start_uses_what_it_is_given(spec: RunSpec) -> Iterator[Mistake]:
    """warmStart.episodes and maxTurns belong to a warm start that plays, rounds to
    filtered-imitation, pathWeight to hindsight."""
    warm = spec.warm_start
    if warm is None:
        return
    unused = _UNUSED[warm.algorithm]
    default = WarmStart(algorithm=warm.algorithm)
    for name in changed(warm, default, unused):
        yield Mistake(
            field=f"spec.warmStart.{WarmStart.model_fields[name].alias}",
            reason=f"has no effect with {warm.algorithm}",
            fix="leave it out",
        )


@rule(
    "warmStart",
    "rollout.maxTokensPerTurn",
    "model.context",
    cel="!has(self.warmStart) || self.warmStart.algorithm != 'filtered-imitation'"
    " || self.warmStart.maxTurns * self.rollout.maxTokensPerTurn < self.model.context",
)
def imitated_play_fits_the_context(spec: RunSpec) -> Iterator[Mistake]:
    """An episode that filtered-imitation samples must fit model.context: warmStart.maxTurns *
    rollout.maxTokensPerTurn must be below it."""
    warm = spec.warm_start
    if warm is None or warm.algorithm != "filtered-imitation":
        return
    tokens = warm.max_turns * spec.rollout.max_tokens_per_turn
    if tokens >= spec.model.context:
        yield Mistake(
            field="spec.warmStart.maxTurns",
            reason=f"{warm.max_turns} turns of {spec.rollout.max_tokens_per_turn} tokens do not "
            f"fit model.context, {spec.model.context}",
            fix=f"raise spec.model.context above {tokens}, or lower maxTurns",
        )


def _reads_s3(spec: RunSpec) -> str | None:
    """The first address in S3, or None."""
    trajectories = spec.warm_start.trajectories if spec.warm_start else None
    for address in (spec.storage.url, spec.model.source, trajectories):
        if address is not None and address.startswith("s3://"):
            return address
    return None


@rule(
    "storage.url",
    "storage.endpoint",
    "storage.region",
    "model.source",
    "warmStart",
    cel=f"!{_S3} || has(self.storage.endpoint) || has(self.storage.region)",
)
def s3_is_somewhere(spec: RunSpec) -> Iterator[Mistake]:
    """An s3:// address needs storage.endpoint, or storage.region for AWS."""
    address = _reads_s3(spec)
    if address and spec.storage.endpoint is None and spec.storage.region is None:
        yield Mistake(
            field="spec.storage.endpoint",
            reason=f"is missing: nothing says which service holds {address}",
            fix="set host:port of MinIO or another S3 service, or spec.storage.region for AWS",
        )


@rule(
    "storage.url",
    "storage.endpoint",
    "storage.region",
    "model.source",
    "warmStart",
    cel=f"(!has(self.storage.endpoint) && !has(self.storage.region)) || {_S3}",
)
def a_service_holds_something(spec: RunSpec) -> Iterator[Mistake]:
    """storage.endpoint and storage.region need an s3:// address."""
    if _reads_s3(spec):
        return
    for name in ("endpoint", "region"):
        if getattr(spec.storage, name) is not None:
            yield Mistake(
                field=f"spec.storage.{name}",
                reason="has no effect: nothing of this run is in S3",
                fix="set spec.storage.url to s3://bucket/prefix, or leave it out",
            )


@rule(
    "storage.endpoint",
    "tracking.uri",
    cel="(!has(self.storage.endpoint) || !self.storage.endpoint.contains('@'))"
    " && (!has(self.tracking.uri) || !self.tracking.uri.matches('^[^/]*//[^/?#]*@'))",
)
def no_secret_in_a_service(spec: RunSpec) -> Iterator[Mistake]:
    """storage.endpoint and tracking.uri hold no user and no password."""
    if spec.storage.endpoint and "@" in spec.storage.endpoint:
        yield Mistake(
            field="spec.storage.endpoint",
            reason="holds a user or a password, and a manifest is no place for a secret",
            fix="put the keys into the variables that accessKeyEnv and secretKeyEnv name",
        )
    if spec.tracking.uri and "@" in urlsplit(spec.tracking.uri).netloc:
        yield Mistake(
            field="spec.tracking.uri",
            reason="holds a user or a password, and a manifest is no place for a secret",
            fix="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment",
        )


RULES: tuple[Rule, ...] = (
    sft_imitates_given_trajectories,
    a_warm_start_uses_what_it_is_given,
    imitated_play_fits_the_context,
    s3_is_somewhere,
    a_service_holds_something,
    no_secret_in_a_service,
)
