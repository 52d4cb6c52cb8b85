from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_components.errors import StoreError
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.codec import decode, encode
from agentrl_components.trajectory.record import Ending, Trajectory, Turn

TURN = Turn(
    start=3,
    end=5,
    reward=0.1,
    wellformed=True,
    action="go – to",
    observation="a “room”\n",
    version=7,
    state="abc",
    achieved=("go to red ball", "x"),
)
EPISODE = Trajectory(
    environment="babyai",
    task="babyai-0123456789abcdef",
    category="PickupDist",
    group=2,
    sample=1,
    iteration=40,
    ids=np.array([10, 11, 12, 20, 4, 13], dtype=np.int32),
    mask=np.array([0, 0, 0, 1, 1, 0], dtype=np.bool_),
    logprobs=np.array([0, 0, 0, -0.1, -1e-30, 0], dtype=np.float32),
    allowed=(np.array([20, 21], dtype=np.int32), np.array([4, 5, 6], dtype=np.int32)),
    turns=(TURN,),
    ending=Ending.TERMINATED,
    score=0.1,
    raw_score=-3.7,
    success=True,
    max_turns=8,
)
FREE = dataclasses.replace(EPISODE, allowed=None, ending=Ending.TRUNCATED, note="tokens", turns=())


def test_the_versions_of_the_tokens_of_a_reply_come_back() -> None:
    mixed = dataclasses.replace(EPISODE, turns=(dataclasses.replace(TURN, versions=(7, 8)),))
    (restored,) = decode(encode([mixed]))
    assert restored.turns == mixed.turns
    assert restored.versions.tolist() == [7, 8]
    assert EPISODE.versions.tolist() == [7, 7]


def test_turns_of_earlier_versions_have_no_times() -> None:
    later = ("started_s", "duration_s", "versions", "success")
    earlier = [getattr(TURN, name) for name in codec.TURN if name not in later]
    content = encode([EPISODE])
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    metadata = json.loads(header["__metadata__"][codec.FORMAT])
    metadata["episodes"][0]["turns"] = [earlier]
    metadata["sha256"] = codec.ZERO_DIGEST
    header["__metadata__"][codec.FORMAT] = json.dumps(metadata)
    text = json.dumps(header).encode()
    plain = len(text).to_bytes(8, "little") + text + content[8 + size :]
    digest = hashlib.sha256(plain).hexdigest().encode()
    (decoded,) = decode(plain.replace(codec.ZERO_DIGEST.encode(), digest, 1))
    assert decoded.turns == (TURN,)
    assert (decoded.turns[0].started_s, decoded.turns[0].duration_s) == (0.0, 0.0)


def comparable(trajectory: Trajectory) -> dict[str, object]:
    """Every field with its type, arrays as lists, so that `==` compares all of it."""
    fields = {f.name: getattr(trajectory, f.name) for f in dataclasses.fields(trajectory)}
    for name in ("ids", "mask", "logprobs"):
        fields[name] = (fields[name].dtype.str, fields[name].tolist())
    if trajectory.allowed is not None:
        fields["allowed"] = tuple((row.dtype.str, row.tolist()) for row in trajectory.allowed)
    return fields


def test_decoding_inverts_encoding() -> None:
    decoded = decode(encode([EPISODE, FREE, EPISODE]))
    assert [comparable(t) for t in decoded] == [
        comparable(EPISODE),
        comparable(FREE),
        comparable(EPISODE),
    ]


def test_an_empty_group_is_decoded_as_empty() -> None:
    assert decode(encode([])) == ()


def test_an_episode_without_tokens_is_decoded_unchanged() -> None:
    none = np.array([])
    lost = dataclasses.replace(
        EPISODE,
        ids=none.astype(np.int32),
        mask=none.astype(np.bool_),
        logprobs=none.astype(np.float32),
        allowed=(),
        turns=(),
        ending=Ending.LOST,
        note="the environment did not answer",
    )
    assert [comparable(t) for t in decode(encode([lost, EPISODE]))] == [
        comparable(lost),
        comparable(EPISODE),
    ]


def test_encoding_is_deterministic() -> None:
    assert len({encode([EPISODE, FREE]) for _ in range(20)}) == 1


def test_decoded_arrays_are_writable() -> None:
    (decoded,) = decode(encode([EPISODE]))
    decoded.ids[0] = 99
    decoded.logprobs[0] = 1.0
    decoded.mask[0] = True
    assert decoded.ids[0] == 99


def test_the_encoding_is_not_a_pickle() -> None:
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(encode([EPISODE]))


def test_int64_ids_are_rejected() -> None:
    wide = dataclasses.replace(EPISODE, ids=np.array([1, 2, 3, 4, 5, 2**40], dtype=np.int64))
    with pytest.raises(TypeError, match="int64"):
        encode([wide])


ENCODED = encode([EPISODE, FREE])


@given(st.integers(0, len(ENCODED) - 1), st.integers(1, 255))
def test_any_changed_byte_is_detected(position: int, difference: int) -> None:
    damaged = bytearray(ENCODED)
    damaged[position] ^= difference
    with pytest.raises(StoreError, match="runs/a/group-3"):
        decode(bytes(damaged), "runs/a/group-3")


@given(st.integers(0, len(ENCODED) - 1))
def test_truncated_data_is_detected(size: int) -> None:
    with pytest.raises(StoreError, match="damaged"):
        decode(ENCODED[:size])


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"{}", b"\xff" * 64, ENCODED + b"\0"])
def test_data_in_another_format_is_rejected(data: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        decode(data)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(), max_size=8)
TURNS = st.builds(
    Turn,
    start=st.integers(0, 9),
    end=st.integers(0, 9),
    reward=FLOATS,
    wellformed=st.booleans(),
    action=TEXTS,
    observation=TEXTS,
    version=st.integers(0, 2**40),
    state=st.none() | TEXTS,
    started_s=FLOATS,
    duration_s=FLOATS,
    achieved=st.lists(TEXTS, max_size=2).map(tuple),
)
IDS = st.integers(0, 2**31 - 1)
ROWS = st.lists(st.lists(IDS, max_size=4).map(lambda row: np.array(row, np.int32)), max_size=4)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    tokens = draw(st.lists(st.tuples(IDS, st.booleans(), st.floats(width=32, allow_nan=False))))
    ids, mask, logprobs = zip(*tokens, strict=True) if tokens else ((), (), ())
    return Trajectory(
        environment=draw(TEXTS),
        task=draw(TEXTS),
        category=draw(TEXTS),
        group=draw(st.integers(0, 99)),
        sample=draw(st.integers(0, 99)),
        iteration=draw(st.integers(-1, 99)),
        ids=np.array(ids, dtype=np.int32),
        mask=np.array(mask, dtype=np.bool_),
        logprobs=np.array(logprobs, dtype=np.float32),
        allowed=draw(st.none() | ROWS.map(tuple)),
        turns=tuple(draw(st.lists(TURNS, max_size=3))),
        ending=draw(st.sampled_from(Ending)),
        score=draw(FLOATS),
        raw_score=draw(FLOATS),
        success=draw(st.booleans()),
        max_turns=draw(st.integers(1, 99)),
        temperature=draw(FLOATS),
        note=draw(TEXTS),
    )


@settings(max_examples=60)
@given(st.lists(trajectories(), max_size=4))
def test_any_group_is_decoded_exactly_and_encoded_to_the_same_bytes(
    group: list[Trajectory],
) -> None:
    decoded = decode(encode(group))
    assert [comparable(t) for t in decoded] == [comparable(t) for t in group]
    assert encode(decoded) == encode(group)
