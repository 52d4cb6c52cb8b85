from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from iteration_records import iteration_record

from agentrl_components.errors import SpecError
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import parse
from agentrl_components.stages.warm_start import from_hindsight, warm_start
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_components.update.packing import Example
from agentrl_envs.env import TaskSet
from agentrl_envs.registry import task_set
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: reword}
spec:
  model:
    source: tiny
    context: 512
    tiny: {layers: 1, hidden: 32, heads: 2, kvHeads: 1, intermediate: 32}
  environments: [{name: rooms, WHERE}]
  warmStart: {algorithm: hindsight, episodes: 50, maxTurns: 3, batch: 8}
  horizon: {phases: [{maxTurns: 2, iterations: 1}]}
  rollout: {tasks: 6, groupSize: 4, actions: admissible, maxTokensPerTurn: 12}
  compute: {workers: 1, device: cpu}
"""


@contextmanager
def served(tasks: TaskSet, requests: list[str]) -> Iterator[str]:
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())

    async def noting(scope, receive, send):
        requests.append(scope.get("path", ""))
        await app(scope, receive, send)

    with running(noting) as url:
        yield url


def told(where: str, folder: Path) -> list[Example]:
    """What the hindsight warm start trains on."""
    run = parse(yaml.safe_load(MANIFEST.replace("WHERE", where)))
    warm = run.spec.warm_start
    assert warm is not None
    store = DirectoryStore(folder)
    with RunContext(run, store, MemoryTracker(), SilentProgressView(), lambda: None) as context:
        return from_hindsight(context, warm, 0)


def test_hindsight_gives_the_same_examples_from_a_server_and_in_process(tmp_path):
    requests: list[str] = []
    here = told("builtin: babyai", tmp_path / "here")
    with served(task_set("babyai"), requests) as url:
        there = told(f'url: "{url}"', tmp_path / "there")
    assert len(here) == len(there) > 10
    for one, other in zip(here, there, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.columns["weight"], other.columns["weight"])
    assert requests.count("/v1/relabel") == 1


def test_an_environment_that_cannot_rewrite_goals_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"spec\.environments\[0\] \(rooms\) cannot; use filtered"):
        told("builtin: 'agentrl_envs.environments.corridor:CorridorTasks'", tmp_path)


def test_a_resumed_run_has_the_reference_policy_of_the_warm_start(tmp_path):
    manifest = yaml.safe_load(MANIFEST.replace("WHERE", "builtin: babyai"))
    manifest["spec"]["algorithm"] = {"kl": {"coefficient": 0.1}}
    run = parse(manifest)

    def opened() -> RunContext:
        store, tracker = DirectoryStore(tmp_path), MemoryTracker()
        return RunContext(run, store, tracker, SilentProgressView(), lambda: None)

    with opened() as context:
        initial = context.lead.policy.shared.vector.clone()
        warm_start(context)
        trained = context.lead.policy.shared.vector.clone()
        assert torch.equal(context.lead.policy.shared.reference, trained)
        context.lead.policy.shared.vector.add_(1.0)  # an update
        context.history.append(iteration_record(iteration=0, phase=0, max_turns=2))
        context.save()
    with opened() as context:
        assert torch.equal(context.lead.policy.shared.vector, trained + 1.0)
        assert torch.equal(context.lead.policy.shared.reference, trained)
    assert not torch.equal(initial, trained)
