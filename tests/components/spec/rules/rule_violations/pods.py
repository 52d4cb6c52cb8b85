"""Violations of the rules about pods, their disk, volumes and variables."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "pods_are_full",
        ("compute={ray: cluster, trainers: {count: 6, perPod: 4}}",),
        ["spec.compute.trainers.perPod"],
    ),
    (
        "pods_are_full",
        ("compute={ray: cluster, samplers: {count: 2, perPod: 4}}",),
        ["spec.compute.samplers.perPod"],
    ),
    (
        "env_names_are_free",
        (
            "compute.env=[{name: A, value: b}, {name: A, value: c}, {name: HOME, value: /},"
            " {name: KEY, value: k}, {name: AWS_ENDPOINT_URL_STS, value: 'http://h'}]",
            "compute.secretEnv=[{name: KEY, secret: hub, key: key}]",
        ),
        [f"spec.compute.env[{index}].name" for index in (1, 2, 3, 4)],
    ),
    (
        "env_names_are_free",
        (
            "compute.secretEnv=[{name: A, secret: s, key: a}, {name: A, secret: s, key: b},"
            " {name: RAY_AUTH_TOKEN, secret: s, key: t},"
            " {name: AWS_ENDPOINT_URL_STS, secret: s, key: h}]",
        ),
        [f"spec.compute.secretEnv[{index}].name" for index in (1, 3)],
    ),
    (
        "disk_and_per_pod_are_for_pods_of_ray",
        ("compute={ray: embedded, trainers: {disk: 50Gi}, samplers: {disk: 20Gi}}",),
        ["spec.compute.trainers.disk", "spec.compute.samplers.disk"],
    ),
    *(
        (
            "disk_and_per_pod_are_for_pods_of_ray",
            (
                f"compute={{ray: {ray}, trainers: {{count: 4, perPod: 4}},"
                " samplers: {count: 2, perPod: 2}}",
            ),
            ["spec.compute.trainers.perPod", "spec.compute.samplers.perPod"],
        )
        for ray in ("embedded", "'head:6379'")
    ),
    (
        "volumes_have_a_size",
        ("compute={ray: cluster, storageClass: fast, trainers: {disk: 50Gi}}",),
        ["spec.compute.samplers.disk"],
    ),
    (
        "volumes_have_a_size",
        ("compute.storageClass=fast",),
        ["spec.compute.trainers.disk", "spec.compute.samplers.disk"],
    ),
    (
        "volumes_do_not_collide",
        (
            "compute.volumes=[{claim: models, path: /models}, {claim: models, path: /other},"
            " {claim: more, path: /models}, {claim: tmp, path: /data},"
            " {claim: a, path: /tmp/a}, {claim: b, path: /dev}, {claim: c, path: /tmpfiles}]",
        ),
        [
            "spec.compute.volumes[1].claim",
            "spec.compute.volumes[2].path",
            "spec.compute.volumes[3].claim",
            "spec.compute.volumes[4].path",
            "spec.compute.volumes[5].path",
        ],
    ),
]
