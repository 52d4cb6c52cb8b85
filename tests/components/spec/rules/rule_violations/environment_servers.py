"""Violations of the rules about the servers of environments."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "fields_of_servers_need_servers",
        (
            "environments[0].secretEnv=[{name: KEY, secret: judge, key: key}]",
            "environments[0].replicas=0",
            "environments[0].nodeSelector={pool: a}",
            "environments[0].env=[{name: A, value: b}]",
            "environments[0].volumes=[{claim: wiki, path: /data}]",
            "environments[1]={name: web, url: 'http://a:1', secretEnv: "
            "[{name: KEY, secret: judge, key: key}], tolerations: [{key: gpu}], "
            "volumes: [{claim: wiki, path: /data}]}",
        ),
        [
            "spec.environments[0].secretEnv",
            "spec.environments[0].env",
            "spec.environments[0].volumes",
            "spec.environments[0].nodeSelector",
            "spec.environments[1].secretEnv",
            "spec.environments[1].volumes",
            "spec.environments[1].tolerations",
        ],
    ),
    (
        "names_of_variables_are_free",
        (
            "environments[1].secretEnv=[{name: A, secret: s, key: a}, {name: A, secret: s, key: b},"
            " {name: PORT, secret: s, key: c}]",
            "environments[1].env=[{name: B, value: x}, {name: B, value: x}, {name: HOME, value: x},"
            " {name: A, value: x}]",
        ),
        [
            *(f"spec.environments[1].secretEnv[{index}].name" for index in (1, 2)),
            *(f"spec.environments[1].env[{index}].name" for index in (1, 2, 3)),
        ],
    ),
    (
        "volumes_of_servers_do_not_collide",
        (
            "environments[1].volumes=[{claim: wiki, path: /data}, {claim: wiki, path: /other},"
            " {claim: more, path: /data}, {claim: tmp, path: /files}, {claim: a, path: /tmp/a},"
            " {claim: b, path: /tmpfiles}]",
        ),
        [
            "spec.environments[1].volumes[1].claim",
            "spec.environments[1].volumes[2].path",
            "spec.environments[1].volumes[3].claim",
            "spec.environments[1].volumes[4].path",
        ],
    ),
    (
        "token_env_needs_server",
        ("environments[0].tokenEnv=TOKEN",),
        ["spec.environments[0].tokenEnv"],
    ),
    (
        "tokens_are_of_the_server",
        (
            "storage={url: 's3://runs/a', endpoint: 'minio:9000', secretKeyEnv: TEAM_SECRET}",
            "environments=[{name: a, url: 'http://a:1', tokenEnv: MLFLOW_TRACKING_TOKEN}, "
            "{name: b, url: 'http://b:1', tokenEnv: TEAM_SECRET}, "
            "{name: c, url: 'http://c:1', tokenEnv: MY_AWS_TOKEN}]",
        ),
        ["spec.environments[0].tokenEnv", "spec.environments[1].tokenEnv"],
    ),
    (
        "options_name_no_keys_of_the_store",
        (
            "environments[0].options={judge: {key_env: AWS_ACCESS_KEY_ID}, list: [{a_env: "
            "AWS_SECRET_ACCESS_KEY}], note: AWS_ACCESS_KEY_ID}",
        ),
        [
            "spec.environments[0].options.judge.key_env",
            "spec.environments[0].options.list[0].a_env",
        ],
    ),
    (
        "protocols_need_url",
        (
            "environments[0].protocol=agentgym",
            "environments[1]={name: web, url: 'http://a:1', protocol: agentgym, replicas: 2, "
            "tokenEnv: TOKEN}",
        ),
        [
            "spec.environments[0].protocol",
            "spec.environments[1].replicas",
            "spec.environments[1].tokenEnv",
        ],
    ),
    (
        "scaling_needs_servers",
        (
            "environments[0].scaling={maxReplicas: 4}",
            "environments[0].replicas=2",
            "environments[1]={name: web, url: 'http://a:1', scaling: {maxReplicas: 4}}",
        ),
        ["spec.environments[0].replicas", "spec.environments[1].scaling"],
    ),
    (
        "backends_need_servers",
        (
            "environments[0].backend=sandbox",
            "environments[0].runtimeClassName=gvisor",
            "environments[0].replicas=0",
            "environments[1]={name: web, url: 'http://a:1', backend: sandbox}",
        ),
        [
            "spec.environments[0].backend",
            "spec.environments[0].runtimeClassName",
            "spec.environments[1].backend",
        ],
    ),
    (
        "backends_need_servers",
        ("environments[0].backend=sandbox", "environments[0].scaling={maxReplicas: 4}"),
        ["spec.environments[0].scaling"],
    ),
    (
        "scaling_has_room",
        ("environments[0].scaling={minReplicas: 5, maxReplicas: 4}",),
        ["spec.environments[0].scaling.minReplicas"],
    ),
    (
        "sessions_per_server_needs_builtin",
        (
            "environments[1]={name: web, image: 'org/web:1', scaling: {maxReplicas: 4, "
            "sessionsPerServer: 8}}",
        ),
        ["spec.environments[1].scaling.sessionsPerServer"],
    ),
    (
        "zero_replicas_need_the_packages",
        ("environments[0]={name: lab, builtin: sciworld, replicas: 0}",),
        ["spec.environments[0].replicas"],
    ),
    (
        "workers_need_no_server",
        (
            "environments[0]={name: lab, url: 'http://lab:8080', workers: 2}",
            "environments[1]={name: maze, builtin: maze, workers: 2}",
        ),
        ["spec.environments[0].workers", "spec.environments[1].workers"],
    ),
    (
        "workers_run_python",
        (
            "compute.image=a/b:1",
            "environments[0]={name: lab, builtin: sciworld, replicas: 0, workers: 2}",
        ),
        ["spec.environments[0].workers"],
    ),
    (
        "timeouts_need_processes",
        ("environments[0]={name: maze, builtin: maze, replicas: 0, timeoutS: 90}",),
        ["spec.environments[0].timeoutS"],
    ),
    (
        "memory_fits_builtin",
        ("environments[0]={name: lab, builtin: sciworld, memory: 1.4Gi}",),
        ["spec.environments[0].memory"],
    ),
    (
        "zero_replicas_need_builtin",
        (
            "environments[0]={name: web, url: 'http://a:1', replicas: 0}",
            "environments[1]={name: own, builtin: 'own:Tasks', image: 'a/b:1', replicas: 0}",
        ),
        ["spec.environments[0].replicas", "spec.environments[1].image"],
    ),
]
