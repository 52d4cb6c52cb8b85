"""The commit of a model from the Hugging Face hub, which a run keeps over all of its starts.

A branch moves. With adapters, a checkpoint has no other weights, and would be put onto those of
another base; without, the reference policy and the tokenizer would be others.
"""

from __future__ import annotations

from agentrl_components.spec import RunSpec
from agentrl_components.storage import keys
from agentrl_components.storage.records import ModelRecord, find_record
from agentrl_components.storage.store import Store


def at_commit(spec: RunSpec, commit: str | None) -> RunSpec:
    """The manifest's `spec`, with `commit` as the revision of its model. None: as it is."""
    if commit is None:
        return spec
    return spec.model_copy(update={"model": spec.model.model_copy(update={"revision": commit})})


def recorded_commit(store: Store) -> str | None:
    """The commit that the run in `store` has, if one was recorded: not for other sources, nor for
    runs that an earlier version of AgentRL began."""
    record = find_record(store, keys.MODEL, ModelRecord)
    return None if record is None else record.commit


def record_commit(store: Store, commit: str) -> None:
    """Record the commit. Raises `StoreError` if another process has recorded another one since
    `recorded_commit` was called: the next start takes that one."""
    store.put(keys.MODEL, ModelRecord(commit=commit).model_dump_json(indent=1).encode())
