"""The model that a run began with, which it keeps over all of its starts.

With adapters, a checkpoint has no other weights, and would be put onto those of another base;
without, the reference policy and the tokenizer would be others. A branch of the Hugging Face hub
moves, so its commit is recorded, and later starts download that. Other sources have no commits:
a digest is recorded, and a source that has changed is refused.
"""

from __future__ import annotations

from pathlib import Path

from agentrl_components.errors import ModelError, StoreError
from agentrl_components.model.digests import sample_of
from agentrl_components.model.sources import commit_of
from agentrl_components.spec import Model, RunSpec
from agentrl_components.storage import keys
from agentrl_components.storage.records import ModelRecord, find_record
from agentrl_components.storage.store import Store


def at_commit(spec: RunSpec, commit: str | None) -> RunSpec:
    """The manifest's `spec`, with `commit` as the revision of its model. None: as it is."""
    if commit is None:
        return spec
    return spec.model_copy(update={"model": spec.model.model_copy(update={"revision": commit})})


def recorded_commit(store: Store) -> str | None:
    """The commit of the run's model in `store`. None: before the first start, of other sources than
    the hub, and of a run that an earlier version of AgentRL began."""
    recorded = find_record(store, keys.MODEL, ModelRecord)
    return None if recorded is None else recorded.commit


def keep_model(store: Store, model: Model, folder: Path) -> None:
    """Record which model `folder` has, or check that it is the recorded one.

    Raises:
        ModelError: the source has changed since the first start.
        StoreError: another process has recorded another commit of a branch that moved since
            `recorded_commit` was called. A later start takes that one.
    """
    if model.source == "tiny":  # a function of the manifest
        return
    commit, recorded = commit_of(model, folder), find_record(store, keys.MODEL, ModelRecord)
    found = ModelRecord(commit=commit) if commit else ModelRecord(sample=sample_of(folder))
    if recorded is None:
        data = found.model_dump_json(indent=1, exclude_none=True).encode()
        store.put(keys.MODEL, data)
    elif found.commit and recorded.commit and found.commit != recorded.commit:
        raise StoreError(
            f"{keys.MODEL}: in {store.url}: another process of the run began with commit "
            f"{recorded.commit} of {model.source}, this one with {found.commit}; start it again"
        )
    elif found.sample and recorded.sample and found.sample != recorded.sample:
        raise ModelError(
            f"{model.source}: has changed since the run in {store.url} began, whose checkpoints "
            "belong to the model as it was; restore it, or start a new run (on one machine: use "
            "another --root)"
        )
