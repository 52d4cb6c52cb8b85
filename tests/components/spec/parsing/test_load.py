from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agentrl_components.errors import SpecError
from agentrl_components.spec import AgentRLRun, RunSpec, dump, flatten, load, parse
from agentrl_components.spec.parsing.load import PLACEHOLDERS

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try, labels: {team: agents}}
spec:
  environments:
    - name: rooms
      builtin: babyai
      options: {levels: [OpenDoorColor, PickupDist], text: terse}
  horizon:
    phases:
      - {maxTurns: 3, iterations: 20}
      - {maxTurns: 8, iterations: 30}
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def _mistakes(folder: Path, text: str, *overrides: str) -> list[str]:
    path = _file(folder, text)
    with pytest.raises(SpecError) as caught:
        load(path, overrides)
    return [line.replace(str(path), "run.yaml") for line in caught.value.mistakes]


def test_a_manifest_is_loaded_with_defaults(tmp_path):
    run = load(_file(tmp_path, MANIFEST))
    assert run.metadata.name == "first-try"
    assert [phase.max_turns for phase in run.spec.horizon.phases] == [3, 8]
    assert run.spec.rollout.group_size == 8


def test_all_mistakes_are_reported_at_once(tmp_path):
    text = MANIFEST.replace("{maxTurns: 8, iterations: 30}", "{maxTurns: 2, iterations: 0}")
    text += """
  rollout: {group_size: 4, groupSize: 1, tasks: "16"}
  suspend: 1
  algorithm: {importanceSampling: {mode: off}, clipLow: .inf, name: grop}
"""
    assert _mistakes(tmp_path, text, "rolout.tasks=3") == [
        "--set spec.rolout: unknown field; did you mean rollout?",
        'spec.algorithm.name: "grop" is not a valid value; did you mean grpo? Use one of ppo, '
        "grpo, rloo, reinforce++, reinforce++-baseline, gspo, gigpo",
        "spec.algorithm.clipLow: inf is not finite; write a finite number, or leave it out",
        'spec.algorithm.importanceSampling.mode: off is false in YAML; put it in quotes: "off"',
        "spec.horizon.phases[1].iterations: 0 is too small; set it to 1 or more",
        'spec.rollout.tasks: "16" is not an integer; '
        "write a whole number, such as 3, without quotes",
        "spec.rollout.group_size: unknown field; did you mean groupSize?",
        "spec.suspend: 1 is not true or false; write true or false, without quotes",
        "spec.horizon.phases[1].maxTurns: 2 is less than 3 in the previous phase; "
        "set it to 3 or more",
    ]


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        (
            "compute.device=gpu",
            'compute.device: "gpu" is not a valid value; did you mean cuda? Use one of auto, cpu, '
            "cuda",
        ),
        (
            "model.source=./weights",
            'model.source: "./weights" has no scheme; write file:// and the absolute path of the '
            "folder",
        ),
        (
            "model.source=Qwen/Qwen3-0.6B",
            'model.source: "Qwen/Qwen3-0.6B" has no scheme; did you mean hf://Qwen/Qwen3-0.6B? Use '
            "tiny, hf://org/name, s3://bucket/prefix, models:/name/version or file:///folder",
        ),
        (
            "compute.memory=8GB",
            'compute.memory: "8GB" is not an amount of memory; write one such as 512Mi, 8Gi or 8G',
        ),
        (
            "environments[0].name=My Game",
            'environments[0].name: "My Game" is not a name; write small letters, digits and '
            "hyphens: a letter first and no hyphen at the end",
        ),
        (
            "tracking.uri=localhost:5000",
            "tracking.uri: localhost:5000 has no scheme; did you mean http://localhost:5000?",
        ),
    ],
)
def test_values_that_other_tools_take_are_refused_with_ours(tmp_path, given, mistake):
    assert _mistakes(tmp_path, MANIFEST, given) == [f"spec.{mistake}"]


def test_rules_are_checked_although_another_field_is_invalid(tmp_path):
    assert _mistakes(tmp_path, MANIFEST, "seed=-1", "rollout.groupSize=1") == [
        "spec.seed: -1 is too small; set it to 0 or more",
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more",
    ]


def test_a_rule_that_reads_an_invalid_field_is_skipped(tmp_path):
    wrong = _mistakes(tmp_path, MANIFEST, "algorithm.name=grop", "rollout.groupSize=1")
    assert [line.split(": ")[0] for line in wrong] == ["spec.algorithm.name"]


def test_a_rule_is_checked_for_the_valid_items_of_a_list(tmp_path):
    given = ("environments=[{name: a, url: 'ftp://x'}, {name: b}]",)
    lines = _mistakes(tmp_path, MANIFEST, *given)
    assert [line.partition(":")[0] for line in lines] == [
        "spec.environments[0].url",
        "spec.environments[1]",
    ]


def test_options_are_validated_by_their_environment(tmp_path):
    given = "environments=[{name: rooms, builtin: corridor, options: {turns: 0, colour: red}}]"
    lines = _mistakes(tmp_path, MANIFEST, given)
    assert lines == [
        "spec.environments[0].options.turns: input should be greater than or equal to 1; "
        "change it from 0",
        "spec.environments[0].options.colour: corridor has no such option; "
        "see `agentrl envs list corridor`",
    ]


def test_missing_fields_are_reported(tmp_path):
    assert _mistakes(tmp_path, "spec: {rollout: {groupSize: 1}, warmStart: {}}") == [
        "apiVersion: is missing; set it to agentrl.dev/v1alpha1",
        "kind: is missing; set it to AgentRLRun",
        "metadata: is missing; set a value",
        "spec.environments: is missing; set a value",
        "spec.horizon: is missing; set a value",
        "spec.warmStart.algorithm: is missing; set a value",
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more",
    ]


def test_labels_and_annotations_are_validated(tmp_path):
    text = MANIFEST.replace(
        "labels: {team: agents}",
        "labels: {team: two words, version: 1, a b: c, kueue.x-k8s.io/priority-class: urgent}, "
        "annotations: {Docs.Example/x: two words, a b: c, count: null}",
    )
    assert _mistakes(tmp_path, text, "rollout.groupSize=1") == [
        'metadata.labels.team: "two words" has the wrong format; '
        "it must match ^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        "metadata.labels.version: 1 is not a string; put it in quotes",
        'metadata.labels: "a b" is not a valid key; write one such as team or example.org/team',
        'metadata.annotations: "a b" is not a valid key; '
        "write one such as team or example.org/team",
        "metadata.annotations.count: null is not a string; put it in quotes",
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more",
    ]


def test_a_field_that_no_metadata_has_is_reported(tmp_path):
    text = MANIFEST.replace("labels: {team: agents}", "lables: {team: agents}, owner: me")
    assert _mistakes(tmp_path, text, "seed=-1") == [
        "metadata.lables: unknown field; did you mean labels?",
        "metadata.owner: unknown field; remove it; the fields are name, namespace, labels, "
        "annotations",
        "spec.seed: -1 is too small; set it to 0 or more",
    ]


def test_fields_that_the_api_server_sets_are_ignored(tmp_path):
    given = "labels: null, uid: 7c0f, resourceVersion: '1', managedFields: [], finalizers: [a/b]"
    run = load(_file(tmp_path, MANIFEST.replace("labels: {team: agents}", given)))
    assert run.metadata.model_dump(exclude_unset=True) == {"name": "first-try"}


def test_placeholders_for_missing_fields_are_never_reported(tmp_path):
    names = [{"name": f"e{index}", "builtin": "corridor", "seats": 1} for index in range(17)]
    assert _mistakes(tmp_path, MANIFEST, f"environments={names}") == [
        f"spec.environments[{index}].seats: unknown field; remove it; the fields are name, "
        "builtin, image, url, protocol, tokenEnv, secretEnv, env, volumes, options, weight, "
        "maxTurns, timeoutS, replicas, workers, backend, runtimeClassName, scaling, nodeSelector, "
        "tolerations, cpu, memory"
        for index in range(17)
    ]


def _required(model: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str]]:
    for name, field in model.model_fields.items():
        if field.is_required():
            yield model, name
        kinds = [field.annotation]
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _required(kind)
            kinds += [one for one in get_args(kind) if one is not Ellipsis]


@pytest.mark.parametrize(("model", "name"), sorted(_required(RunSpec), key=str))
def test_every_required_field_has_a_valid_placeholder(model, name):
    alias = str(model.model_fields[name].alias)
    found = set()
    try:
        model.model_validate_json(json.dumps({alias: PLACEHOLDERS[alias]}))
    except ValidationError as error:
        found = {one["type"] for one in error.errors()}
    # Required fields of items get placeholders of their own in the next round.
    assert found <= {"missing", "too_short"}


@pytest.mark.parametrize(
    ("secret_env", "lines"),
    [
        (
            "[{name: A-B, secret: s, key: k}]",
            [
                'secretEnv[0].name: "A-B" has the wrong format; '
                "it must match ^[A-Za-z_][A-Za-z0-9_]*$"
            ],
        ),
        (
            "[{name: A}]",
            [
                "secretEnv[0].secret: is missing; set a value",
                "secretEnv[0].key: is missing; set a value",
            ],
        ),
    ],
)
def test_an_invalid_secret_env_is_reported(tmp_path, secret_env, lines):
    for place in ("environments[0]", "compute"):
        assert _mistakes(tmp_path, MANIFEST, f"{place}.secretEnv={secret_env}") == [
            f"spec.{place}.{line}" for line in lines
        ]


def test_deeply_nested_options_are_rejected(tmp_path):
    options: Any = {}
    for _ in range(200):
        options = {"a": options}
    run = {"environments": [{"name": "a", "builtin": "corridor", "options": options}]}
    with pytest.raises(SpecError, match="manifest: is nested deeper than 64 levels; flatten it"):
        parse({"spec": run})


def test_an_empty_list_is_reported_once(tmp_path):
    assert _mistakes(tmp_path, MANIFEST, "horizon.phases=[]", "environments=[]") == [
        "spec.environments: has 0 items; list at least 1",
        "spec.horizon.phases: has 0 items; list at least 1",
    ]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("environments=3", "spec.environments: 3 is not a list; write each item on its own "
         "line after a dash"),
        ("model=tiny", 'spec.model: "tiny" is not a mapping; write its fields under it, indented'),
        ("update.learningRate=fast", 'spec.update.learningRate: "fast" is not a number; write a '
         "number, such as 0.5, without quotes"),
        ("update.learningRate=0", "spec.update.learningRate: 0 is too small; set it above 0"),
        ("compute.gpus=8", "spec.compute.gpus: 8 is too large; set it to 1 or less"),
        ("rollout.topP=1.5", "spec.rollout.topP: 1.5 is too large; set it to 1 or less"),
        ("update.beta2=1", "spec.update.beta2: 1 is too large; set it below 1"),
        ("seed=1.5", "spec.seed: 1.5 is not an integer; write a whole number, such as 3, "
         "without quotes"),
        ("evaluation.turnSweep=[null]", "spec.evaluation.turnSweep[0]: null is not an integer; "
         "write a whole number, such as 3, without quotes"),
        ("metadata.name=null", "metadata.name: is missing; set a value"),
        ("tracking.experiment=''", "spec.tracking.experiment: is empty; set a value, or leave "
         "it out"),
        ("compute.ray=ray://head:10001", 'spec.compute.ray: "ray://head:10001" is an address of '
         "Ray Client, which is not supported; use host:port of the cluster's head (GCS), such as "
         "head:6379"),
        ("compute.ray=head:65536", 'spec.compute.ray: "head:65536" is not a Ray cluster; use '
         "embedded, cluster or host:port of the cluster's head (GCS), such as head:6379"),
        ("compute.ray=head", 'spec.compute.ray: "head" is not a Ray cluster; use embedded, cluster '
         "or host:port of the cluster's head (GCS), such as head:6379"),
        ("model.source=gpt2", 'spec.model.source: "gpt2" is not a model source; use tiny, '
         "hf://org/name, s3://bucket/prefix, models:/name/version or file:///folder"),
        ("model.source=Qwen/Qwen2.5-7B-Instruct", 'spec.model.source: "Qwen/Qwen2.5-7B-Instruct" '
         "has no scheme; did you mean hf://Qwen/Qwen2.5-7B-Instruct? Use tiny, hf://org/name, "
         "s3://bucket/prefix, models:/name/version or file:///folder"),
        ("environments[0]={name: a, url: 'http://h:70000'}", 'spec.environments[0].url: '
         '"http://h:70000" is not an HTTP URL; write one, such as http://host:8000'),
        ("environments[0]={name: a, url: 'http://[::::]'}", 'spec.environments[0].url: '
         '"http://[::::]" is not an HTTP URL; write one, such as http://host:8000'),
        ("environments[0]={name: a, url: 'http://[1:2:3:4:5:6:7::8]'}", 'spec.environments[0].url: '
         '"http://[1:2:3:4:5:6:7::8]" has no valid host and port; write one, such as host:8000'),
        ("storage={url: s3://runs, endpoint: 'http://minio:90000'}", 'spec.storage.endpoint: '
         '"http://minio:90000" is not a host and port; write one, such as minio:9000'),
        ("storage={url: s3://runs, endpoint: 'http://me:pw@minio:90000'}", 'spec.storage.endpoint: '
         '"http://...@minio:90000" is not a host and port; write one, such as minio:9000'),
        ("tracking.uri='http://[::1:5000'", "spec.tracking.uri: is not a valid HTTP URL; write "
         "one, such as http://host:5000"),
        ("storage={url: s3://a..b/c, endpoint: 'minio:9000'}", "spec.storage.url: s3://a..b/c has "
         "an invalid bucket name; use letters, digits, and single dots or dashes between them"),
        ("storage={url: 's3://runs/a?x', region: eu}", 'spec.storage.url: "s3://runs/a?x" is not '
         "an address of objects; use s3://bucket/prefix, with lower-case letters, digits, dots and "
         "dashes in the bucket, and a prefix without ?, # and control characters"),
        ("storage.url=runs/a", 'spec.storage.url: "runs/a" is not an address of a store; use '
         "s3://bucket/prefix or file:///folder"),
        ("warmStart={algorithm: sft, trajectories: a.jsonl}", 'spec.warmStart.trajectories: '
         '"a.jsonl" is not an address of a file; use file:///file or s3://bucket/key'),
        ("environments[0]={name: a, url: host}", 'spec.environments[0].url: "host" is not an HTTP '
         "URL; write one, such as http://host:8000"),
        ("environments[0].options=3", "spec.environments[0].options: 3 is not a mapping; write "
         "name: value pairs under it"),
        ("metadata.name=" + "a" * 53, "metadata.name: is longer than 52 characters; shorten it to "
         "52 or fewer"),
        ("apiVersion=agentrl.dev/v1", 'apiVersion: "agentrl.dev/v1" is not a valid value; did you '
         "mean agentrl.dev/v1alpha1? Use agentrl.dev/v1alpha1"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported_with_reason_and_fix(tmp_path, override, line):
    assert _mistakes(tmp_path, MANIFEST, override) == [line]


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seed=null", "seed", "0"),
        ("algorithm=null", "algorithm.name", "grpo"),
        ("algorithm.critic=null", "algorithm.critic.valueClip", "0.5"),
        ("rollout.tasks=3.0", "rollout.tasks", "3"),
        ("horizon.phases[1].iterations=7.0", "horizon.phases.1.iterations", "7"),
        ("ttlSecondsAfterFinished=5.0", "ttlSecondsAfterFinished", "5"),
        ("model.lora.targets=null", "model.lora.targets.0", "q_proj"),
    ],
)
def test_nulls_and_whole_numbers_are_read_as_the_api_server_reads_them(
    tmp_path, override, path, value
):
    assert flatten(load(_file(tmp_path, MANIFEST), (override,)))[path] == value


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"none\.yaml: file not found; check the path"):
        load(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="is a folder; give the path of the manifest in it"):
        load(tmp_path)


def test_a_binary_file_is_rejected(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"\x89PNG\xff")
    with pytest.raises(SpecError, match="is not UTF-8 text"):
        load(tmp_path / "run.yaml")


def test_an_object_from_the_api_server_is_parsed_without_its_status():
    read: dict[str, Any] = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "a", "uid": "7c0f", "resourceVersion": "1"},
        "spec": {
            "environments": [{"name": "a", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
        },
        "status": {"phase": "Running"},
    }
    assert parse(read).spec.environments[0].builtin == "corridor"
    assert "status" in read


def test_a_dumped_manifest_loads_as_the_same_run(tmp_path):
    run = load(_file(tmp_path, MANIFEST), ("environments[0].timeoutS=2.5", "storage.url=null"))
    assert load(_file(tmp_path, dump(run))) == run
    assert "rollout" not in dump(run)


def test_a_run_is_flattened_with_its_defaults(tmp_path):
    flat = flatten(load(_file(tmp_path, MANIFEST)))
    assert flat["model.source"] == "tiny"
    assert flat["horizon.phases.1.maxTurns"] == "8"
    assert flat["algorithm.scaleByStd"] == "true"
    assert flat["environments.0.options.levels.1"] == "PickupDist"
    assert flat["storage.url"] == "null"


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
PATHS = list(
    flatten(
        AgentRLRun.model_validate(
            {
                "apiVersion": "agentrl.dev/v1alpha1",
                "kind": "AgentRLRun",
                "metadata": {"name": "a"},
                "spec": {
                    "model": {"lora": {}},
                    "environments": [{"name": "a"}, {"name": "b"}],
                    "horizon": {
                        "phases": [{"maxTurns": 1, "iterations": 1}] * 2,
                        "alarms": [{}],
                    },
                    "warmStart": {"algorithm": "sft"},
                    "evaluation": {"turnSweep": [1, 2]},
                },
            }
        )
    )
)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(PATHS), Json, st.integers(0, 3)),
        max_size=4,
        unique_by=lambda one: one[0].split(".")[0],
    )
)
def test_any_invalid_manifest_gives_a_list_of_mistakes_with_fixes(values):
    spec: Any = {
        "model": {"lora": {"targets": ["q_proj"] * 7}},
        "environments": [{"name": "a"}, {"name": "b"}],
        "horizon": {"phases": [{}, {}], "alarms": [{}]},
        "evaluation": {"turnSweep": [2, 1]},
    }
    for path, value, up in values:
        parts: list[Any] = [int(part) if part.isdecimal() else part for part in path.split(".")]
        *parents, last = parts[: max(1, len(parts) - up)]
        container = spec
        for part in parents:
            container = container[part] if isinstance(part, int) else container.setdefault(part, {})
        container[last] = value
    with pytest.raises(SpecError) as caught:
        parse({"spec": spec})
    assert caught.value.mistakes[:3] == [
        "apiVersion: is missing; set it to agentrl.dev/v1alpha1",
        "kind: is missing; set it to AgentRLRun",
        "metadata: is missing; set a value",
    ]
    assert all(re.match(r"\S+: .+(; |\?)", line, re.DOTALL) for line in caught.value.mistakes)


def test_the_spec_package_does_not_import_the_training_stack():
    code = (
        "import sys, agentrl_components.spec.crd.definition\n"
        "import agentrl_components.spec.crd.reference\n"
        "import agentrl_pipelines.cli.commands.validate, agentrl_pipelines.cli.commands.crd\n"
        "heavy = {'torch', 'numpy', 'vllm', 'ray', 'mlflow', 'transformers', 'minigrid'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"
