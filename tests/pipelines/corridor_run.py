"""The manifest of a run that takes seconds: a tiny model in the corridor environment."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess

import yaml

from agentrl_components.spec import AgentRLRun, parse

HEADER = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: walk}
spec:
  model:
    source: tiny
    context: 64
    tiny: {layers: 1, hidden: 32, heads: 2, kvHeads: 1, intermediate: 32}
  environments: [{name: corridor, builtin: corridor}]
  compute: {workers: 1, device: cpu}
"""
"""Model, environment and compute. Append the other fields of `spec`."""

MANIFEST = (
    HEADER
    + """\
  warmStart: {algorithm: filtered-imitation, episodes: 60, maxTurns: 5, batch: 8}
  horizon: {phases: [{maxTurns: 2, iterations: 5}, {maxTurns: 4, iterations: 5}]}
  rollout: {tasks: 6, groupSize: 4, actions: admissible, maxTokensPerTurn: 4}
  update: {learningRate: 3.0e-3, miniBatch: 8, microBatchTokens: 256, checkpointEvery: 2}
  evaluation: {tasks: 12, every: 3}
"""
)

# Every run is forked from a server that has imported the packages, since imports take seconds.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        *(
            "agentrl_pipelines.stages.runner",
            "agentrl_pipelines.local.run",
            "agentrl_components.stages.disaggregated",
        ),
        *("agentrl_components.reporting.plot", "agentrl_components.reporting.html"),
        *("torch._dynamo", "torch._refs", "matplotlib.backends.backend_svg"),
    ]
)


@contextmanager
def forked(target: Callable[..., object], *arguments: object) -> Iterator[ForkServerProcess]:
    """A process that is forked from this server and calls `target`. It is killed when the block
    ends, also by an error: a run would go on, and the test process would wait for it at its end."""
    process = FORK.Process(target=target, args=arguments)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def manifest(**changes: object) -> AgentRLRun:
    """The manifest with some fields of `spec` changed; a mapping is merged into the field."""
    read = yaml.safe_load(MANIFEST)
    for field, change in changes.items():
        known = read["spec"].get(field)
        both = isinstance(known, dict) and isinstance(change, dict)
        read["spec"][field] = {**known, **change} if both else change
    return parse(read)
