"""Launcher and Argo lines in a stage's log. The samples are from pods of KFP 2.14, Argo 3 and 4."""

import json

import pytest

from agentrl_pipelines.cli.log_noise import NoiseFilter

LOG = """\
time="2025-11-28T15:18:45.446Z" level=info msg="capturing logs" argo=true
I1128 15:18:45.556450      27 main.go:61] Setting log level to: '1'
I1128 15:18:45.561418      27 cache.go:77] Connecting to cache endpoint 10.96.119.219:8887
    0:00  · phase 1, attempt 1
INFO agentrl_components.rollout.environments: rooms answers
    0:04  train: phase 1/2, 3 turns, iteration 10/25
I1128 15:21:22.402999      27 launcher_v2.go:877] ExecutorOutput: {
  "artifacts": {
    "checkpoint": {
      "artifacts": [
        {
          "metadata": {
            "iteration": 25
          }
        }
      ]
    }
  }
}
I1128 15:21:22.502999      27 launcher_v2.go:181] publish success.
I1128 15:21:22.529018      27 client.go:738] Attempting to update DAG state
time="2025-11-28T15:21:23.490Z" level=info msg="sub-process exited" argo=true error="<nil>"
"""
FOUR = 'time=2026-08-14T23:19:20.845Z level=INFO msg="sub-process exited" argo=true error=<nil>'


def stage_lines(text: str) -> list[str]:
    noise = NoiseFilter()
    return [line for line in text.splitlines() if not noise.is_noise(line)]


def test_only_the_lines_of_the_stage_remain():
    assert stage_lines(LOG) == [
        "    0:00  · phase 1, attempt 1",
        "INFO agentrl_components.rollout.environments: rooms answers",
        "    0:04  train: phase 1/2, 3 turns, iteration 10/25",
    ]


def test_json_objects_that_the_launcher_prints_are_noise():
    pretty = json.dumps({"inputs": {"parameterValues": {"phase": 0}}}, indent=2)
    line = "I1128 15:21:22.402999      27 launcher_v2.go:171] input ExecutorInput: "
    assert stage_lines(f"{line}{pretty}\n    0:00  train") == ["    0:00  train"]


def test_the_format_of_argo_4_is_recognised():
    assert stage_lines(FOUR) == []
    assert stage_lines('time="2026-01-01T00:00:00.1Z" level=info msg="/a -> /b" argo=true') == []


@pytest.mark.parametrize(
    "line",
    [
        "F1128 15:21:22.552240      27 main.go:53] failed to execute component: exit status 1",
        "E0101 00:00:00.000000       1 launcher_v2.go:898] All upload artifact attempts failed: x",
        'time="2025-11-28T15:21:23.490Z" level=error msg="cannot save parameter /a" argo=true',
        "Error: exit status 1",
    ],
)
def test_warnings_and_errors_are_never_noise(line):
    assert stage_lines(line) == [line]


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"level": "info", "msg": "I1128 15:21:22.502999 27 main.go:61] ", "argo": True}),
        "INFO agentrl_pipelines.stages.stages: argo=true",
        "I1128 says nothing of the kind",
        "INFO 11-28 15:21:22 [llm.py:123] vLLM is ready",
        '  "a": 1',
        "}",
    ],
)
def test_similar_lines_of_a_stage_are_not_noise(line):
    assert stage_lines(line) == [line]


def test_lines_after_a_truncated_launcher_output_are_not_noise():
    cut = 'I1128 15:21:22.402999      27 launcher_v2.go:877] ExecutorOutput: {\n  "artifacts": {'
    assert stage_lines(f"{cut}\n    0:00  train\n}}") == ["    0:00  train", "}"]
