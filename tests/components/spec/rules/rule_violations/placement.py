"""Violations of the rules about the nodes, labels and annotations of pods."""

from rule_violations.manifest import Violation

_TOLERATIONS = (
    "[{value: a}, {key: gpu, operator: Exists, value: a}, {operator: Exists}, {key: gpu}]"
)

VIOLATIONS: list[Violation] = [
    (
        "keys_are_valid",
        (
            "compute.nodeSelector={disk/: ssd, a/b/c: x, example.org/pool: a}",
            "compute.podLabels={-team: a}",
            "compute.podAnnotations={a b: c}",
        ),
        [
            "spec.compute.nodeSelector",
            "spec.compute.nodeSelector",
            "spec.compute.podLabels",
            "spec.compute.podAnnotations",
        ],
    ),
    (
        "keys_of_servers_are_valid",
        ("environments[1].nodeSelector={disk/: ssd, pool: a}",),
        ["spec.environments[1].nodeSelector"],
    ),
    (
        "tolerations_are_complete",
        (f"compute.tolerations={_TOLERATIONS}",),
        ["spec.compute.tolerations[0].key", "spec.compute.tolerations[1].value"],
    ),
    (
        "tolerations_of_servers_are_complete",
        (f"environments[1].tolerations={_TOLERATIONS}",),
        ["spec.environments[1].tolerations[0].key", "spec.environments[1].tolerations[1].value"],
    ),
    (
        "pod_labels_are_free",
        (
            "compute.podLabels={agentrl.dev/run: a, pipeline/runid: b, ray.io/cluster: c, team: d,"
            " my-agentrl.dev/x: e}",
        ),
        ["spec.compute.podLabels"] * 3,
    ),
]
