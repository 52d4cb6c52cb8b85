from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentrl_components.errors import SpecError
from agentrl_components.spec import load, local_mistakes, parse
from agentrl_components.spec.rules import RULES

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

BROKEN: list[tuple[str, tuple[str, ...], list[str]]] = [
    (
        "phases_fit_the_context",
        ("model.context=512", "rollout.maxTokensPerTurn=64"),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    ("evaluation_fits_the_context", ("evaluation.maxTurns=16",), ["spec.evaluation.maxTurns"]),
    ("heads_divide_the_width", ("model.tiny={heads: 5, kvHeads: 1}",), ["spec.model.tiny.heads"]),
    (
        "heads_divide_the_width",
        ("model.tiny={heads: 4, kvHeads: 3}",),
        ["spec.model.tiny.kvHeads"],
    ),
    (
        "heads_divide_the_width",
        ("model.tiny={hidden: 27, heads: 3}",),
        ["spec.model.tiny.heads"],
    ),
    ("a_tiny_model_has_no_chat_template", ("model.template=chat",), ["spec.model.template"]),
    ("only_a_hub_has_revisions", ("model.revision=main",), ["spec.model.revision"]),
    (
        "dropout_needs_correction",
        ("model.lora={dropout: 0.1}", 'algorithm.importanceSampling.mode="off"'),
        ["spec.model.lora.dropout"],
    ),
    (
        "adapters_are_named_once",
        ("model.lora={targets: [q_proj, v_proj, q_proj]}",),
        ["spec.model.lora.targets[2]"],
    ),
    (
        "an_environment_runs_in_one_place",
        ("environments[0].builtin=null", "environments[1].image=a/b:1"),
        ["spec.environments[0]", "spec.environments[1]"],
    ),
    (
        "a_built_in_environment_is_known",
        ("environments[0].builtin=babiai",),
        ["spec.environments[0].builtin"],
    ),
    (
        "secrets_go_to_servers",
        (
            "environments[0].secretEnv=[{name: KEY, secret: judge, key: key}]",
            "environments[0].replicas=0",
            "environments[1]={name: web, url: 'http://a:1', secretEnv: "
            "[{name: KEY, secret: judge, key: key}]}",
        ),
        ["spec.environments[0].secretEnv", "spec.environments[1].secretEnv"],
    ),
    (
        "a_secret_has_a_variable_of_its_own",
        (
            "environments[1].secretEnv=[{name: A, secret: s, key: a}, {name: A, secret: s, key: b},"
            " {name: PORT, secret: s, key: c}]",
        ),
        ["spec.environments[1].secretEnv[1].name", "spec.environments[1].secretEnv[2].name"],
    ),
    (
        "environments_have_names_of_their_own",
        ("environments[1].name=rooms",),
        ["spec.environments[1].name"],
    ),
    (
        "a_built_in_environment_needs_no_token",
        ("environments[0].tokenEnv=TOKEN",),
        ["spec.environments[0].tokenEnv"],
    ),
    (
        "no_secret_in_an_address",
        ("environments[0]={name: rooms, url: 'http://me:pw@host:8000'}",),
        ["spec.environments[0].url"],
    ),
    ("every_environment_is_played", ("rollout.tasks=1",), ["spec.rollout.tasks"]),
    ("every_environment_is_evaluated", ("evaluation.tasks=1",), ["spec.evaluation.tasks"]),
    ("a_comparison_needs_two", ("rollout.groupSize=1",), ["spec.rollout.groupSize"]),
    (
        "only_ppo_has_a_critic",
        ("algorithm.gae.lam=0.95", "algorithm.critic.learningRate=1e-4"),
        ["spec.algorithm.gae.lam", "spec.algorithm.critic.learningRate"],
    ),
    ("only_gigpo_weighs_steps", ("algorithm.gigpoWeight=0.5",), ["spec.algorithm.gigpoWeight"]),
    (
        "refilling_replaces_what_was_dropped",
        ("algorithm.refillRounds=2", "algorithm.dropZeroVariance=false"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "refilling_replaces_what_was_dropped",
        ("algorithm.refillRounds=2", "algorithm.name=ppo"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "an_estimator_needs_a_coefficient",
        ("algorithm.kl.estimator=k1",),
        ["spec.algorithm.kl.estimator"],
    ),
    (
        "a_confined_sampler_has_no_nucleus",
        ("rollout.actions=admissible", "rollout.topP=0.9"),
        ["spec.rollout.topP"],
    ),
    (
        "a_nucleus_needs_correction",
        ("rollout.topP=0.9", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.topP"],
    ),
    (
        "a_lag_needs_correction",
        ("rollout.maxStaleness=1", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.maxStaleness"],
    ),
    ("a_constant_step_has_no_end", ("update.finalShare=0",), ["spec.update.finalShare"]),
    (
        "horizons_never_shrink",
        ("horizon.phases[1].maxTurns=2",),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    (
        "a_phase_ends_after_its_least",
        ("horizon.advance=success", "horizon.phases[0].minIterations=21"),
        ["spec.horizon.phases[0].minIterations"],
    ),
    (
        "an_early_end_needs_a_sign",
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
        "a_window_fits_its_phase",
        ("horizon.advance=plateau", "horizon.window=21"),
        ["spec.horizon.window"],
    ),
    (
        "an_alarm_watches_something",
        ("horizon.alarms=[{action: stop}]",),
        ["spec.horizon.alarms[0]"],
    ),
    (
        "an_alarm_has_time_to_ring",
        ("horizon.alarms=[{rewardDrop: 0.5, window: 51}]",),
        ["spec.horizon.alarms[0].window"],
    ),
    (
        "one_episode_has_no_spread",
        (
            "horizon.alarms=[{rewardStdBelow: 0.01}]",
            "algorithm.name=ppo",
            "rollout.groupSize=1",
        ),
        ["spec.horizon.alarms[0].rewardStdBelow"],
    ),
    ("the_step_size_arrives", ("update.warmupIterations=50",), ["spec.update.warmupIterations"]),
    (
        "the_policy_gets_its_turn",
        ("algorithm.name=ppo", "algorithm.critic.warmupIterations=50"),
        ["spec.algorithm.critic.warmupIterations"],
    ),
    ("a_sweep_goes_up", ("evaluation.turnSweep=[4, 2]",), ["spec.evaluation.turnSweep[1]"]),
    ("a_sweep_goes_up", ("evaluation.turnSweep=[4, 4]",), ["spec.evaluation.turnSweep[1]"]),
    ("a_sweep_stays_near", ("evaluation.turnSweep=[8, 81]",), ["spec.evaluation.turnSweep[1]"]),
    (
        "samples_differ",
        ("evaluation.samples=4", "evaluation.temperature=0"),
        ["spec.evaluation.samples"],
    ),
    (
        "sft_imitates_given_trajectories",
        ("warmStart.algorithm=sft",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "sft_imitates_given_trajectories",
        ("warmStart={algorithm: hindsight, trajectories: 'file:///a.jsonl'}",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "a_warm_start_uses_what_it_is_given",
        ("warmStart={algorithm: hindsight, rounds: 3}",),
        ["spec.warmStart.rounds"],
    ),
    (
        "a_warm_start_uses_what_it_is_given",
        ("warmStart={algorithm: sft, trajectories: 'file:///a.jsonl', episodes: 5}",),
        ["spec.warmStart.episodes"],
    ),
    (
        "imitated_play_fits_the_context",
        ("warmStart={algorithm: filtered-imitation, maxTurns: 16}",),
        ["spec.warmStart.maxTurns"],
    ),
    (
        "only_a_built_in_environment_needs_no_server",
        ("environments[0]={name: web, url: 'http://a:1', replicas: 0}",),
        ["spec.environments[0].replicas"],
    ),
    ("s3_is_somewhere", ("storage.url=s3://runs/a",), ["spec.storage.endpoint"]),
    (
        "a_service_holds_something",
        ("storage.endpoint=minio:9000", "storage.region=eu-west-1"),
        ["spec.storage.endpoint", "spec.storage.region"],
    ),
    (
        "no_secret_in_a_service",
        (
            "storage={url: 's3://runs/a', endpoint: 'http://me:pw@minio:9000'}",
            "tracking.uri='http://me:pw@mlflow:5000'",
        ),
        ["spec.storage.endpoint", "spec.tracking.uri"],
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


def test_the_manifest_that_the_examples_break_is_valid(tmp_path):
    assert _load(tmp_path, ()) == []


@pytest.mark.parametrize(("name", "overrides", "fields"), BROKEN)
def test_a_broken_rule_names_the_field(tmp_path, name, overrides, fields):
    assert [line.split(": ")[0] for line in _load(tmp_path, overrides)] == fields


def test_every_rule_has_an_example():
    assert {rule.check.__name__ for rule in RULES} == {name for name, _, _ in BROKEN}


def test_a_mistake_says_field_reason_and_fix(tmp_path):
    assert _load(tmp_path, ("rollout.groupSize=1",)) == [
        "spec.rollout.groupSize: 1 is too small for grpo, which compares the episodes of a task; "
        "set it to 2 or more"
    ]


def test_a_single_episode_is_enough_where_nothing_is_compared(tmp_path):
    assert _load(tmp_path, ("rollout.groupSize=1", "algorithm.name=reinforce++")) == []


def test_the_context_must_exceed_the_replies_of_the_longest_phase(tmp_path):
    assert _load(tmp_path, ("model.context=513", "rollout.maxTokensPerTurn=64")) == []


def test_a_container_cannot_be_started_without_kubernetes():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["environments"][0] = {"name": "web", "image": "example.org/web:1"}
    read["spec"]["suspend"] = True
    assert [str(mistake) for mistake in local_mistakes(parse(read))] == [
        "spec.environments[0].image: a container is started by Kubernetes, and this run has none; "
        "start its server yourself and give its url, or apply the manifest to a cluster",
        "spec.suspend: the manifest says not to work; set it to false, or run with "
        "--set suspend=false",
    ]
