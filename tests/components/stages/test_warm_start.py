import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from iteration_records import iteration_record
from thinking_chat import save_thinking_model

from agentrl_components.errors import SpecError
from agentrl_components.rollout.request import RANDOM_POLICY
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import parse
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.provision import provision
from agentrl_components.stages.warm_start import from_hindsight, open_source, play, warm_start
from agentrl_components.storage import keys
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
    view = SilentProgressView()
    with RunContext(run, store, MemoryTracker(), view, lambda: None) as context:
        examples = from_hindsight(context, warm)(0)
    assert view.notes == [f"warm start: {len(examples)} of 50 episodes reached a goal"]
    return examples


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


def imitating(lines: Path, **model: object) -> RunContext:
    """A new run that imitates the conversations in a file next to its store."""
    manifest = yaml.safe_load(MANIFEST.replace("WHERE", "builtin: corridor"))
    warm = {"algorithm": "sft", "trajectories": f"file://{lines}"}
    manifest["spec"] |= {"warmStart": warm, "evaluation": {"tasks": 4}}
    manifest["spec"]["model"] |= model
    store, tracker = DirectoryStore(lines.parent / "store"), MemoryTracker()
    return RunContext(parse(manifest), store, tracker, SilentProgressView(), lambda: None)


def provisioned(context: RunContext) -> None:
    workers = context.workers
    workers.loop.run(provision(context.run, workers.worlds, context.journal))


def line(observation: str) -> str:
    messages = [("user", observation), ("assistant", "go left")]
    return json.dumps({"messages": [{"role": r, "content": c} for r, c in messages]}) + "\n"


def test_a_file_that_is_no_conversation_is_refused_before_the_model_is_opened(tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text(line("at 1") + "{")
    mistake = r"spec\.warmStart\.trajectories: line 2: .*; for the format see docs/warm-start\.md"
    with pytest.raises(SpecError, match=mistake), imitating(lines, source="file:///none"):
        pass
    lines.unlink()
    with pytest.raises(SpecError, match="cannot be read"), imitating(lines, source="file:///none"):
        pass


def test_a_conversation_that_is_too_long_is_refused_before_the_first_evaluation(tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text(line("at 1 ") + line("1 " * 600))
    with imitating(lines) as context:
        provisioned(context)
        with pytest.raises(SpecError, match=r"line 2: .* tokens do not fit spec\.model\.context"):
            prepare(context)
        assert list(context.store.list(keys.EVALUATIONS)) == []


def test_the_file_of_a_warm_start_is_read_once(tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text(line("at 1"))
    with imitating(lines) as context:
        provisioned(context)
        lines.unlink()
        prepare(context)
        assert (context.training.version, len(context.conversations)) == (1, 0)
    with imitating(lines) as resumed:
        assert resumed.resumed


def test_goals_that_cannot_be_rewritten_are_refused_before_the_first_evaluation(tmp_path):
    where = "builtin: 'agentrl_envs.environments.corridor:CorridorTasks'"
    run = parse(yaml.safe_load(MANIFEST.replace("WHERE", where)))
    store, tracker = DirectoryStore(tmp_path), MemoryTracker()
    with RunContext(run, store, tracker, SilentProgressView(), lambda: None) as context:
        provisioned(context)
        with pytest.raises(SpecError, match=r"spec\.environments\[0\] \(rooms\) cannot"):
            prepare(context)
        assert list(store.list(keys.EVALUATIONS)) == []


def test_hindsight_is_refused_where_the_model_always_thinks_before_it_acts(tmp_path):
    save_thinking_model(tmp_path / "model")
    manifest = yaml.safe_load(MANIFEST.replace("WHERE", "builtin: babyai"))
    manifest["spec"]["model"] = {"source": f"file://{tmp_path}/model", "context": 512}
    manifest["spec"]["rollout"]["actions"] = "free"
    store, tracker = DirectoryStore(tmp_path / "store"), MemoryTracker()
    with (
        RunContext(parse(manifest), store, tracker, SilentProgressView(), lambda: None) as context,
        pytest.raises(
            SpecError, match=r"hindsight imitates actions without thoughts, and .*/model"
        ),
    ):
        open_source(context)


def test_random_episodes_of_a_task_that_was_drawn_again_are_others(tmp_path):
    """The corridor has 97 training tasks, so that the last 53 of 150 episodes have tasks again."""
    manifest = yaml.safe_load(MANIFEST.replace("WHERE", "builtin: corridor"))
    manifest["spec"]["warmStart"] |= {"algorithm": "filtered-imitation", "episodes": 150}
    run = parse(manifest)
    warm = run.spec.warm_start
    assert warm is not None
    store, tracker = DirectoryStore(tmp_path), MemoryTracker()
    with RunContext(run, store, tracker, SilentProgressView(), lambda: None) as context:
        episodes = play(context, warm, 0, RANDOM_POLICY)
    actions = [tuple(turn.action for turn in episode.turns) for episode in episodes]
    assert [e.task for e in episodes[97:]] == [e.task for e in episodes[:53]]
    copies = [one == other for one, other in zip(actions[97:], actions, strict=False)]
    assert 0 < sum(copies) < 53  # there are at most 27 episodes of three turns


def test_a_resumed_run_has_the_reference_policy_of_the_warm_start(tmp_path):
    manifest = yaml.safe_load(MANIFEST.replace("WHERE", "builtin: babyai"))
    manifest["spec"]["algorithm"] = {"kl": {"coefficient": 0.1}}
    run = parse(manifest)

    def opened() -> RunContext:
        store, tracker = DirectoryStore(tmp_path), MemoryTracker()
        return RunContext(run, store, tracker, SilentProgressView(), lambda: None)

    with opened() as context:
        initial = context.lead.policy.shared.vector.clone()
        warm_start(context, open_source(context))
        trained = context.lead.policy.shared.vector.clone()
        assert torch.equal(context.lead.policy.shared.reference, trained)
        context.lead.policy.shared.vector.add_(1.0)  # an update
        context.history.append(iteration_record(iteration=0, phase=0, max_turns=2))
        context.save()
    with opened() as context:
        assert torch.equal(context.lead.policy.shared.vector, trained + 1.0)
        assert torch.equal(context.lead.policy.shared.reference, trained)
    assert not torch.equal(initial, trained)
