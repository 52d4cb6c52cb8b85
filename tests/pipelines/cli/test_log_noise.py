"""What is said around a stage, told from what the stage says. Launcher and Argo speak here
as they did in pods of KFP 2.14 and Argo 3 and 4."""

import json

import pytest

from agentrl_pipelines.cli.log_noise import Chatter

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


def spoken(text: str) -> list[str]:
    chatter = Chatter()
    return [line for line in text.splitlines() if not chatter.has(line)]


def test_of_a_pods_log_what_the_stage_said_is_left():
    assert spoken(LOG) == [
        "    0:00  · phase 1, attempt 1",
        "INFO agentrl_components.rollout.environments: rooms answers",
        "    0:04  train: phase 1/2, 3 turns, iteration 10/25",
    ]


def test_argo_4_says_it_otherwise():
    assert spoken(FOUR) == []
    assert spoken('time="2026-01-01T00:00:00.1Z" level=info msg="/a -> /b" argo=true') == []


@pytest.mark.parametrize(
    "line",
    [
        "F1128 15:21:22.552240      27 main.go:53] failed to execute component: exit status 1",
        "E0101 00:00:00.000000       1 launcher_v2.go:898] All upload artifact attempts failed: x",
        'time="2025-11-28T15:21:23.490Z" level=error msg="cannot save parameter /a" argo=true',
        "Error: exit status 1",
    ],
)
def test_why_a_stage_failed_is_never_chatter(line):
    assert spoken(line) == [line]


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
def test_a_line_of_a_stage_is_left_even_if_it_looks_a_little_like_it(line):
    assert spoken(line) == [line]


def test_what_follows_the_launchers_output_is_told_from_it_even_where_that_is_cut_short():
    cut = 'I1128 15:21:22.402999      27 launcher_v2.go:877] ExecutorOutput: {\n  "artifacts": {'
    assert spoken(f"{cut}\n    0:00  train\n}}") == ["    0:00  train", "}"]
