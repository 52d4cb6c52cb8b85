"""Episodes that stream with a staleness of 0 beside the lock-step loop, on an embedded Ray."""

import pytest
import yaml

from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import AgentRLRun, parse
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.colocated import ColocatedRollouts
from agentrl_components.stages.provision import provision
from agentrl_components.stages.streamed import StreamedRollouts
from agentrl_components.stages.train import train
from agentrl_components.storage import checkpoint
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker

pytest.importorskip("ray")

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: walk}
spec:
  model:
    source: tiny
    context: 64
    tiny: {layers: 1, hidden: 32, heads: 2, kvHeads: 1, intermediate: 32}
  environments: [{name: corridor, builtin: corridor}]
  horizon: {phases: [{maxTurns: 4, iterations: 4}]}
  rollout: {tasks: 6, groupSize: 4, actions: admissible, maxTokensPerTurn: 4}
  update: {learningRate: 3.0e-3, miniBatch: 8, microBatchTokens: 256}
  evaluation: {tasks: 8, every: 2}
  compute: {ray: embedded, trainers: {count: 1}, samplers: {count: 2}}
"""

STREAM_METRICS = {
    "train/staleness_max",
    "rollout/queue_depth",
    "rollout/groups_under_way",
    "rollout/lead",
    "rollout/groups_dropped",
    "rollout/idle_share",
    "rollout/prefix_hits",
    "update/idle_share",
}


def trained(run: AgentRLRun, *, streamed: bool):
    """The records of all iterations, and the files of the last checkpoint."""
    store, view = MemoryStore(), SilentProgressView()
    with RunContext(run, store, SilentTracker(), view, lambda: None) as context:
        workers = context.workers
        workers.loop.run(provision(run, workers.worlds, context.journal))
        prepare(context)
        rollouts = (
            StreamedRollouts(context, 0, workers.actors) if streamed else ColocatedRollouts(context)
        )
        train(context, 0, rollouts)
        return context.history, checkpoint.load(store, 4).files


@pytest.mark.slow
def test_a_stream_without_staleness_gives_the_bits_of_lock_step():
    run = parse(yaml.safe_load(MANIFEST))
    records, files = trained(run, streamed=False)
    streamed_records, streamed_files = trained(run, streamed=True)
    assert len(records) == 4
    assert records[-1].metrics["train/success"] is not None
    for streamed, record in zip(streamed_records, records, strict=True):
        of_the_stream = set(streamed.metrics) - set(record.metrics)
        assert of_the_stream == STREAM_METRICS
        kept = {name: streamed.metrics[name] for name in record.metrics}
        assert streamed.model_copy(update={"metrics": kept}) == record
        assert streamed.metrics["train/staleness_max"] == 0
    assert streamed_files == files
