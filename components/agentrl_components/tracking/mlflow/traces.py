"""Record episodes as MLflow traces: a root span per episode and a child span per turn.

Ids of traces and spans are hashes of what they show, so that recording an episode again changes
nothing. The spans of an episode are sent in one request. Durations are those that were measured
when the episode was played. Its start is the time at which it was recorded, since a trajectory
holds no times of day. A turn of an earlier version, whose duration is not known, is shown as 1 ms.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentrl_components.errors import TrackerError
from agentrl_components.tracking.mlflow.failure import is_transient, line
from agentrl_components.tracking.send_queue import Episodes
from agentrl_components.trajectory.record import Trajectory, Turn

_UNKNOWN_S = 1e-3
"""Duration that is shown for a turn whose duration is not known."""
CHAT_USAGE = "mlflow.chat.tokenUsage"
"""MLflow's attribute for the token counts of a span."""
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
"""PostgreSQL takes no NUL, and UTF-8 has no lone surrogates."""
_PREVIEW_LENGTH = 1000
"""Maximum characters of the request and response previews in MLflow's table of traces."""


def record_episodes(uri: str, experiment_id: str, run_id: str, batch: Episodes) -> None:
    """Send the traces of a batch of episodes, with one request for the spans of each, since servers
    and proxies limit the size of a request.

    Raises what MLflow raises, and `TrackerError` if the server refuses some of the episodes; the
    others are recorded."""
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    episodes = [
        (_trace_id(run_id, batch, episode), episode) for episode in batch.episodes if episode.turns
    ]
    if not episodes or _is_recorded(client, episodes[-1][0]):
        return
    refused: list[str] = []
    for trace_id, episode in episodes:
        try:
            _log_spans(client, experiment_id, list(_spans(trace_id, batch, episode)))
            client.start_trace(_info(trace_id, experiment_id, run_id, batch, episode))
        except Exception as error:
            if is_transient(error):
                raise
            refused.append(line(error))
    if refused:
        raise TrackerError(f"{len(refused)} of {len(episodes)} episodes: {refused[0]}")


def _log_spans(client: Any, experiment_id: str, spans: list[Any]) -> None:
    """Send spans. A server that did not tell its version is asked again the next time: MLflow's
    client would keep that failure for the life of the process, and send nothing to the server."""
    try:
        client.log_spans(experiment_id, spans)
    except NotImplementedError as error:
        if "could not identify" not in str(error):
            raise
        from mlflow.store.tracking.rest_store import RestStore

        RestStore._get_server_version.cache_clear()
        raise ConnectionError(str(error)) from error


def _is_recorded(client: Any, trace_id: int) -> bool:
    """Whether MLflow has the complete trace. Tags are written last, in the order of the batch."""
    from mlflow.exceptions import MlflowException

    try:
        return "shown" in client.get_trace_info(_text_id(trace_id)).tags
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            return False
        raise


def run_lengths(mask: NDArray[np.bool_]) -> str:
    """Run-length encoding of a token mask, (+) sampled and (-) not: `[F F T T T F]` is `2-3+1-`."""
    return "".join(f"{len(list(run))}{'+' if on else '-'}" for on, run in groupby(mask.tolist()))


def turn_attributes(episode: Trajectory, turn: Turn) -> dict[str, Any]:
    """Attributes of a turn's span."""
    reply = slice(turn.start, turn.end)
    mask = episode.mask[reply]
    sampled = episode.logprobs[reply][mask]
    return {
        "reward": turn.reward,
        "wellformed": turn.wellformed,
        "tokens": turn.end - turn.start,
        "sampled_tokens": int(mask.sum()),
        "mean_logprob": round(float(sampled.mean()), 6) if len(sampled) else None,
        "mask": run_lengths(mask),
        "policy_version": turn.version,
        CHAT_USAGE: token_usage(episode, turn),
    }


def episode_attributes(episode: Trajectory) -> dict[str, Any]:
    """Attributes of an episode's root span."""
    return {
        "environment": episode.environment,
        "task": episode.task,
        "category": episode.category,
        "score": episode.score,
        "raw_score": episode.raw_score,
        "success": episode.success,
        "ending": episode.ending.value,
        "horizon": episode.max_turns,
        "turns": len(episode.turns),
        "iteration": episode.iteration,
        "group": episode.group,
        "sample": episode.sample,
        "tokens": len(episode.ids),
        "sampled_tokens": episode.num_sampled,
        "mask": run_lengths(episode.mask),
        "temperature": episode.temperature,
        "note": episode.note,
    }


def conversation(episode: Trajectory) -> list[dict[str, str]]:
    """The episode as chat messages, which MLflow renders: observations of the user, replies of the
    assistant."""
    messages: list[dict[str, str]] = []
    for turn in episode.turns:
        messages.append({"role": "user", "content": turn.observation})
        messages.append({"role": "assistant", "content": turn.action})
    return messages


def token_usage(episode: Trajectory, turn: Turn) -> dict[str, int]:
    """Token counts of a turn in MLflow's form. The input is everything before the reply.

    MLflow shows the sum over a trace's turns as the trace's."""
    output = int(episode.mask[turn.start : turn.end].sum())
    return {"input_tokens": turn.end - output, "output_tokens": output, "total_tokens": turn.end}


def turn_times_ns(episode: Trajectory) -> list[tuple[int, int]]:
    """Start and end of each turn in nanoseconds from the start of the episode."""
    turns = episode.turns
    if not all(turn.duration_s for turn in turns):
        starts = [index * _UNKNOWN_S for index in range(len(turns))]
        times = [(start, start + _UNKNOWN_S) for start in starts]
    else:
        times = [(turn.started_s, turn.started_s + turn.duration_s) for turn in turns]
    return [(round(start * 1e9), round(end * 1e9)) for start, end in times]


def _outcome(episode: Trajectory) -> str:
    verdict = "solved" if episode.success else "not solved"
    return f"{verdict}, score {episode.score:.2f}, {len(episode.turns)} turns, {episode.ending}"


def _spans(trace_id: int, batch: Episodes, episode: Trajectory) -> Iterator[Any]:
    """The root span, which has the conversation, and a span for each turn, which has what is new
    in it: with all messages before it the size would be quadratic in the turns."""
    from mlflow.entities import SpanType

    start_ns = batch.time_ms * 1_000_000
    times_ns = turn_times_ns(episode)
    messages = conversation(episode)
    yield _span(
        trace_id,
        0,
        f"{batch.name}: {episode.category}",
        (start_ns, start_ns + times_ns[-1][1]),
        SpanType.AGENT,
        {"task": episode.task, "messages": messages[:1]},
        {"outcome": _outcome(episode), "messages": messages[1:]},
        episode_attributes(episode) | {"iteration": batch.iteration},
    )
    for index, (turn, (begin, end)) in enumerate(zip(episode.turns, times_ns, strict=True)):
        yield _span(
            trace_id,
            index + 1,
            f"turn {index + 1}",
            (start_ns + begin, start_ns + end),
            SpanType.LLM,
            {"messages": messages[2 * index : 2 * index + 1]},
            {"messages": messages[2 * index + 1 : 2 * index + 2]},
            turn_attributes(episode, turn),
        )


def _span(
    trace_id: int,
    index: int,
    name: str,
    times_ns: tuple[int, int],
    kind: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> Any:
    from mlflow.entities.span import Span
    from mlflow.tracing.constant import SpanAttributeKey
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode

    def context(number: int) -> SpanContext:
        return SpanContext(trace_id, _number(f"{trace_id}/{number}", 8), is_remote=False)

    values = {
        SpanAttributeKey.REQUEST_ID: _text_id(trace_id),
        SpanAttributeKey.SPAN_TYPE: kind,
        SpanAttributeKey.INPUTS: inputs,
        SpanAttributeKey.OUTPUTS: outputs,
        **attributes,
    }
    return Span(
        ReadableSpan(
            name=_storable(name),
            context=context(index),
            parent=context(0) if index else None,
            resource=Resource.get_empty(),
            # no ASCII escapes, so that MLflow's search finds the text
            attributes={
                key: _storable(json.dumps(value, ensure_ascii=False))
                for key, value in values.items()
            },
            status=Status(StatusCode.OK),
            start_time=times_ns[0],
            end_time=times_ns[1],
        )
    )


def _info(
    trace_id: int, experiment_id: str, run_id: str, batch: Episodes, episode: Trajectory
) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

    first = episode.turns[0].observation
    return TraceInfo(
        trace_id=_text_id(trace_id),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=batch.time_ms,
        execution_duration=turn_times_ns(episode)[-1][1] // 1_000_000,
        state=TraceState.OK,
        request_preview=_storable(first[:_PREVIEW_LENGTH]),
        response_preview=_outcome(episode),
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        tags={
            TraceTagKey.TRACE_NAME: _storable(f"{batch.name}: {episode.category}"),
            "shown": batch.name,
            "iteration": str(batch.iteration),
            "category": _storable(episode.category),
            "success": str(episode.success).lower(),
            "horizon": str(episode.max_turns),
        },
    )


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _trace_id(run_id: str, batch: Episodes, episode: Trajectory) -> int:
    parts = [run_id, batch.iteration, batch.name, episode.task, episode.group, episode.sample]
    return _number(json.dumps(parts), 16)


def _text_id(trace_id: int) -> str:
    return f"tr-{trace_id:032x}"


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big")
