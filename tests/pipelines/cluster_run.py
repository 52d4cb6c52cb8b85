"""The manifest of a run on a cluster, with every kind of environment and Kubernetes options."""

import yaml

from agentrl_components.spec import AgentRLRun, parse

UID = "6f1e2d3c-1111-4222-8333-444455556666"
MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: walk, namespace: team}
spec:
  environments:
    - {name: rooms, builtin: babyai, options: {levels: [PickupDist]}}
    - {name: inside, builtin: corridor, replicas: 0}
    - {name: web, url: "http://web:8000", tokenEnv: WEB_TOKEN}
  horizon: {phases: [{maxTurns: 3, iterations: 2}]}
  compute:
    placement: disaggregated
    cpu: "2"
    memory: 8Gi
    gpus: 1
    nodeSelector: {gpu: h200}
    tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
    queue: lab
    secretEnv: [{name: WEB_TOKEN, secret: web, key: token}]
    retries: 5
"""


def manifest(**compute: object) -> AgentRLRun:
    read = yaml.safe_load(MANIFEST)
    read["spec"]["compute"].update(compute)
    return parse(read)
