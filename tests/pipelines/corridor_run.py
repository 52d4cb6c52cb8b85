"""A run of seconds: a tiny model walks the corridor, as a manifest and as a process."""

import multiprocessing

import yaml

from agentrl_components.spec import AgentRLRun, parse

WORLD = """
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
"""The model, the world and the machine. The text that goes on from here says how it is learnt."""

MANIFEST = (
    WORLD
    + """\
  warmStart: {algorithm: filtered-imitation, episodes: 60, maxTurns: 5, batch: 8}
  horizon: {phases: [{maxTurns: 2, iterations: 5}, {maxTurns: 4, iterations: 5}]}
  rollout: {tasks: 6, groupSize: 4, actions: admissible, maxTokensPerTurn: 4}
  update: {learningRate: 3.0e-3, miniBatch: 8, microBatchTokens: 256, checkpointEvery: 2}
  evaluation: {tasks: 12, every: 3}
"""
)

# A server that has imported everything forks each run: what takes seconds to start is not tested
# again and again.
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


def manifest(**changes: object) -> AgentRLRun:
    """The manifest with some of its parts changed."""
    read = yaml.safe_load(MANIFEST)
    for part, change in changes.items():
        known = read["spec"].get(part)
        both = isinstance(known, dict) and isinstance(change, dict)
        read["spec"][part] = {**known, **change} if both else change
    return parse(read)
