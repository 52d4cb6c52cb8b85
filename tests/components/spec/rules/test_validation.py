from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentrl_components.errors import SpecError
from agentrl_components.spec import load, local_mistakes, parse
from agentrl_components.spec.rules.validation import RULES
from agentrl_envs.registry import names

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try}
spec:
  environments:
    - {name: rooms, builtin: babyai}
    - {name: walk, builtin: corridor}
  horizon:
    phases:
      - {maxTurns: 3, iterations: 20}
      - {maxTurns: 8, iterations: 30}
"""

VIOLATIONS: list[tuple[str, tuple[str, ...], list[str]]] = [
    (
        "phases_fit_context",
        ("model.context=512", "rollout.maxTokensPerTurn=64"),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    ("evaluation_fits_context", ("evaluation.maxTurns=16",), ["spec.evaluation.maxTurns"]),
    ("tiny_heads_divide_hidden", ("model.tiny={heads: 5, kvHeads: 1}",), ["spec.model.tiny.heads"]),
    (
        "tiny_heads_divide_hidden",
        ("model.tiny={heads: 4, kvHeads: 3}",),
        ["spec.model.tiny.kvHeads"],
    ),
    (
        "tiny_heads_divide_hidden",
        ("model.tiny={hidden: 27, heads: 3}",),
        ["spec.model.tiny.heads"],
    ),
    ("tiny_has_no_chat_template", ("model.template=chat",), ["spec.model.template"]),
    ("revision_needs_hub", ("model.revision=main",), ["spec.model.revision"]),
    (
        "lora_dropout_needs_importance_sampling",
        ("model.lora={dropout: 0.1}", 'algorithm.importanceSampling.mode="off"'),
        ["spec.model.lora.dropout"],
    ),
    (
        "lora_targets_are_unique",
        ("model.lora={targets: [q_proj, v_proj, q_proj]}",),
        ["spec.model.lora.targets[2]"],
    ),
    (
        "environments_have_one_location",
        ("environments[0].builtin=null", "environments[1].url='http://a:1'"),
        ["spec.environments[0]", "spec.environments[1]"],
    ),
    (
        "builtins_exist",
        ("environments[0].builtin=babiai",),
        ["spec.environments[0].builtin"],
    ),
    (
        "secret_env_needs_server",
        (
            "environments[0].secretEnv=[{name: KEY, secret: judge, key: key}]",
            "environments[0].replicas=0",
            "environments[1]={name: web, url: 'http://a:1', secretEnv: "
            "[{name: KEY, secret: judge, key: key}]}",
        ),
        ["spec.environments[0].secretEnv", "spec.environments[1].secretEnv"],
    ),
    (
        "secret_env_names_are_free",
        (
            "environments[1].secretEnv=[{name: A, secret: s, key: a}, {name: A, secret: s, key: b},"
            " {name: PORT, secret: s, key: c}]",
        ),
        ["spec.environments[1].secretEnv[1].name", "spec.environments[1].secretEnv[2].name"],
    ),
    (
        "environment_names_are_unique",
        ("environments[1].name=rooms",),
        ["spec.environments[1].name"],
    ),
    (
        "token_env_needs_server",
        ("environments[0].tokenEnv=TOKEN",),
        ["spec.environments[0].tokenEnv"],
    ),
    (
        "environment_urls_have_no_credentials",
        ("environments[0]={name: rooms, url: 'http://me:pw@host:8000'}",),
        ["spec.environments[0].url"],
    ),
    (
        "options_need_builtin",
        ("environments[1]={name: web, url: 'http://a:1', options: {length: 3}}",),
        ["spec.environments[1].options"],
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
        "babyai_text_fits_model",
        ("model.source=hf://org/name",),
        ["spec.environments[0].options.text"],
    ),
    (
        "weights_give_every_environment_a_task",
        ("environments[1].weight=0.1", "evaluation.tasks=10", "rollout.tasks=11"),
        ["spec.environments[1].weight"],
    ),
    ("rollout_tasks_cover_environments", ("rollout.tasks=1",), ["spec.rollout.tasks"]),
    ("evaluation_tasks_cover_environments", ("evaluation.tasks=1",), ["spec.evaluation.tasks"]),
    ("group_baselines_need_groups", ("rollout.groupSize=1",), ["spec.rollout.groupSize"]),
    (
        "critic_settings_need_ppo",
        ("algorithm.gae.lam=0.95", "algorithm.critic.learningRate=1e-4"),
        ["spec.algorithm.gae.lam", "spec.algorithm.critic.learningRate"],
    ),
    ("gigpo_weight_needs_gigpo", ("algorithm.gigpoWeight=0.5",), ["spec.algorithm.gigpoWeight"]),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.dropZeroVariance=false"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.name=ppo"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.name=gigpo"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "kl_estimator_needs_coefficient",
        ("algorithm.kl.estimator=k1",),
        ["spec.algorithm.kl.estimator"],
    ),
    (
        "admissible_actions_need_full_top_p",
        ("rollout.actions=admissible", "rollout.topP=0.9"),
        ["spec.rollout.topP"],
    ),
    (
        "top_p_needs_importance_sampling",
        ("rollout.topP=0.9", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.topP"],
    ),
    (
        "staleness_needs_importance_sampling",
        ("rollout.maxStaleness=1", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.maxStaleness"],
    ),
    (
        "importance_mask_needs_range",
        ("algorithm.importanceSampling={mode: mask, cap: 1}",),
        ["spec.algorithm.importanceSampling.cap"],
    ),
    ("final_share_needs_decay", ("update.finalShare=0",), ["spec.update.finalShare"]),
    (
        "max_turns_never_decrease",
        ("horizon.phases[1].maxTurns=2",),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    (
        "environment_turns_fit_schedule",
        ("environments[0].maxTurns=[3, 4, 5, 6, 7, 8]", "environments[1].maxTurns=[5, 4]"),
        ["spec.environments[0].maxTurns", "spec.environments[1].maxTurns"],
    ),
    (
        "min_iterations_fit_phase",
        ("horizon.advance=success", "horizon.phases[0].minIterations=21"),
        ["spec.horizon.phases[0].minIterations"],
    ),
    (
        "early_end_settings_match_advance",
        (
            "horizon.successAbove=0.5",
            "horizon.plateauDelta=0.1",
            "horizon.phases[0].minIterations=5",
        ),
        [
            "spec.horizon.successAbove",
            "spec.horizon.plateauDelta",
            "spec.horizon.phases[0].minIterations",
        ],
    ),
    (
        "window_fits_phases",
        ("horizon.advance=plateau", "horizon.window=11"),
        ["spec.horizon.window"],
    ),
    (
        "alarms_have_bounds",
        ("horizon.alarms=[{action: stop}]",),
        ["spec.horizon.alarms[0]"],
    ),
    (
        "alarm_windows_fit_run",
        ("horizon.alarms=[{rewardDrop: 0.5, window: 51}]",),
        ["spec.horizon.alarms[0].window"],
    ),
    (
        "reward_std_needs_groups",
        (
            "horizon.alarms=[{rewardStdBelow: 0.01}]",
            "algorithm.name=ppo",
            "rollout.groupSize=1",
        ),
        ["spec.horizon.alarms[0].rewardStdBelow"],
    ),
    (
        "learning_rate_warmup_ends",
        ("update.warmupIterations=50",),
        ["spec.update.warmupIterations"],
    ),
    (
        "critic_warmup_ends",
        ("algorithm.name=ppo", "algorithm.critic.warmupIterations=50"),
        ["spec.algorithm.critic.warmupIterations"],
    ),
    ("turn_sweep_increases", ("evaluation.turnSweep=[4, 2]",), ["spec.evaluation.turnSweep[1]"]),
    ("turn_sweep_increases", ("evaluation.turnSweep=[4, 4]",), ["spec.evaluation.turnSweep[1]"]),
    ("turn_sweep_is_bounded", ("evaluation.turnSweep=[8, 81]",), ["spec.evaluation.turnSweep[1]"]),
    (
        "samples_need_temperature",
        ("evaluation.samples=4", "evaluation.temperature=0"),
        ["spec.evaluation.samples"],
    ),
    (
        "trajectories_match_algorithm",
        ("warmStart.algorithm=sft",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "trajectories_match_algorithm",
        ("warmStart={algorithm: hindsight, trajectories: 'file:///a.jsonl'}",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: hindsight, rounds: 3}",),
        ["spec.warmStart.rounds"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: sft, trajectories: 'file:///a.jsonl', episodes: 5}",),
        ["spec.warmStart.episodes"],
    ),
    (
        "warm_start_fits_context",
        ("warmStart={algorithm: filtered-imitation, maxTurns: 16}",),
        ["spec.warmStart.maxTurns"],
    ),
    (
        "zero_replicas_need_the_packages",
        ("environments[0]={name: lab, builtin: sciworld, replicas: 0}",),
        ["spec.environments[0].replicas"],
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
    ("s3_needs_endpoint_or_region", ("storage.url=s3://runs/a",), ["spec.storage.endpoint"]),
    (
        "endpoint_needs_s3",
        ("storage.endpoint=minio:9000", "storage.region=eu-west-1"),
        ["spec.storage.endpoint", "spec.storage.region"],
    ),
    (
        "buckets_are_valid",
        (
            "storage={url: 's3://1.2.3.4/a', endpoint: 'minio:9000'}",
            "model.source=s3://a.-b/c",
            "warmStart={algorithm: sft, trajectories: 's3://a-.b/c'}",
        ),
        ["spec.storage.url", "spec.model.source", "spec.warmStart.trajectories"],
    ),
    ("tracking_uri_is_valid", ("tracking.uri='http://mlflow:90000'",), ["spec.tracking.uri"]),
    (
        "services_have_no_credentials",
        (
            "storage={url: 's3://runs/a', endpoint: 'http://me:pw@minio:9000'}",
            "tracking.uri='http://me:pw@mlflow:5000'",
        ),
        ["spec.storage.endpoint", "spec.tracking.uri"],
    ),
    (
        "trainers_and_samplers_need_ray",
        ("compute={trainers: {count: 2}, samplers: {count: 2}}",),
        ["spec.compute.trainers", "spec.compute.samplers"],
    ),
    (
        "workers_are_not_for_ray",
        ("compute={ray: embedded, workers: 2}",),
        ["spec.compute.workers"],
    ),
    (
        "ray_has_one_driver",
        ("compute={ray: 'head:6379', placement: disaggregated}",),
        ["spec.compute.placement"],
    ),
    (
        "streams_are_not_refilled",
        (
            "compute.ray=embedded",
            "rollout.maxStaleness=1",
            "algorithm={refillRounds: 1}",
        ),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "interrupt_needs_streaming",
        ("compute.ray=embedded", "rollout.interrupt=continue"),
        ["spec.rollout.interrupt"],
    ),
    (
        "interrupt_needs_torch_engine",
        (
            "compute.ray=embedded",
            "rollout={maxStaleness: 1, interrupt: abort, engine: vllm}",
        ),
        ["spec.rollout.interrupt"],
    ),
    (
        "tensor_parallel_needs_vllm",
        ("compute={ray: embedded, samplers: {gpus: 3, tensorParallel: 3}}",),
        ["spec.compute.samplers.tensorParallel"],
    ),
    (
        "sampler_gpus_are_its_tensor_parallel_size",
        ("compute={ray: embedded, samplers: {gpus: 2}}",),
        ["spec.compute.samplers.gpus"],
    ),
    (
        "tensor_parallel_divides_heads",
        (
            "compute={ray: embedded, samplers: {gpus: 2, tensorParallel: 2}}",
            "rollout.engine=vllm",
        ),
        ["spec.compute.samplers.tensorParallel"],
    ),
    (
        "trainers_and_samplers_need_ray",
        ("compute.handOver=ray",),
        ["spec.compute.handOver"],
    ),
    (
        "nccl_hand_over_needs_gpus_and_vllm",
        ("compute={ray: embedded, handOver: nccl, trainers: {gpus: 1}, samplers: {gpus: 1}}",),
        ["spec.compute.handOver"],
    ),
]


def _load(folder: Path, overrides: tuple[str, ...]) -> list[str]:
    path = folder / "run.yaml"
    path.write_text(MANIFEST)
    try:
        load(path, overrides)
    except SpecError as error:
        return error.mistakes
    return []


def test_the_base_manifest_is_valid(tmp_path):
    assert _load(tmp_path, ()) == []


@pytest.mark.parametrize(("name", "overrides", "fields"), VIOLATIONS)
def test_a_violated_rule_names_the_field(tmp_path, name, overrides, fields):
    assert [line.split(": ")[0] for line in _load(tmp_path, overrides)] == fields


def test_every_rule_has_an_example():
    assert {rule.check.__name__ for rule in RULES} == {name for name, _, _ in VIOLATIONS}


def test_a_mistake_has_field_reason_and_fix(tmp_path):
    assert _load(tmp_path, ("rollout.groupSize=1",)) == [
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more"
    ]


def test_a_group_size_of_one_is_valid_without_a_group_baseline(tmp_path):
    assert _load(tmp_path, ("rollout.groupSize=1", "algorithm.name=reinforce++")) == []


def test_a_context_that_exceeds_the_replies_of_the_longest_phase_is_valid(tmp_path):
    assert _load(tmp_path, ("model.context=513", "rollout.maxTokensPerTurn=64")) == []


@pytest.mark.parametrize(
    "environment",
    [
        "{name: own, builtin: 'my_package.world:MyTasks'}",
        "{name: own, builtin: 'my_package.world:MyTasks', image: 'a/b:1'}",
        "{name: own, builtin: my-world, image: 'a/b:1', options: {size: 3}}",
        "{name: own, builtin: babyai, image: 'a/b:1', options: {text: terse}}",
        "{name: own, url: 'http://a:1', protocol: agentgym, options: {family: babyai}}",
    ],
)
def test_an_environment_of_another_package_is_valid(tmp_path, environment):
    assert _load(tmp_path, (f"environments[0]={environment}",)) == []


def test_a_plain_name_that_is_not_built_in_needs_an_image(tmp_path):
    assert _load(tmp_path, ("environments[0].builtin=quarry",)) == [
        "spec.environments[0].builtin: there is no built-in environment quarry; use one of "
        f"{', '.join(sorted(names()))}, module:Class, or give the image that has it"
    ]
    assert _load(tmp_path, ("environments[0].builtin=babiai",)) == [
        "spec.environments[0].builtin: there is no built-in environment babiai; did you mean "
        "babyai?"
    ]


def test_an_image_with_a_builtin_needs_no_kubernetes():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["environments"][0] |= {"image": "example.org/own:1"}
    assert list(local_mistakes(parse(read))) == []


def test_container_images_and_suspended_runs_are_rejected_without_kubernetes():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["environments"][0] = {"name": "web", "image": "example.org/web:1"}
    read["spec"]["suspend"] = True
    assert [str(mistake) for mistake in local_mistakes(parse(read))] == [
        "spec.environments[0].image: a container image needs Kubernetes; start the server yourself "
        "and set url, or apply the manifest to a cluster",
        "spec.suspend: the run is suspended; set it to false, or run with --set suspend=false",
    ]


def test_a_small_server_is_allowed_for_environments_that_need_little(tmp_path):
    changed = "environments[0]={name: rooms, builtin: babyai, memory: 128Mi}"
    enough = "environments[1]={name: lab, builtin: sciworld, memory: 1536Mi}"
    assert _load(tmp_path, (changed, enough)) == []
