"""`agentrl logs` with a stub of the Kubernetes API."""

from typing import Any

from kubernetes_stub import DONE, Api, agentrl, cluster, pod, status

from agentrl_pipelines.cli.commands.logs import follow_logs
from agentrl_pipelines.cli.kube_client import Cluster


def api_with_pods(**more: Any) -> Api:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    return Api(
        pods=[
            pod("update-1", "update", "abc", DONE, 2),
            pod("rollout-1", "rollout", "abc", DONE, 1),
            pod("evaluate-1", "evaluate", "abc", waiting, 3),
            pod("driver", None, "abc", DONE, 0),
            pod("earlier", "rollout", "xyz", DONE, 0),
        ],
        logs={
            "rollout-1": "2026-01-01T00:00:01.000000000Z plays\n"
            "2026-01-01T00:00:03.000000000Z 8 of 8 \x1b[2Jsolved\n",
            "update-1": "2026-01-01T00:00:02.000000000Z learns\n",
        },
        **more,
    )


def test_logs_of_the_stages_are_merged_by_time(tmp_path, monkeypatch, manifest):
    api = api_with_pods(statuses=[status("Running", kfpRun="abc")])
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        done = agentrl("logs", "first-try")
        last = agentrl("logs", "first-try", "--stage", "rollout", "--tail", "1")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "rollout   plays",
        "update    learns",
        "rollout   8 of 8 �[2Jsolved",
    ]
    assert done.stderr == "evaluate: not started (ImagePullBackOff: no such image)\n"
    assert last.stdout == "rollout   8 of 8 �[2Jsolved\n"
    assert api.selectors == [
        "pipeline/runid=abc,agentrl.dev/stage",
        "pipeline/runid=abc,agentrl.dev/stage=rollout",
    ]


def test_logs_are_followed_across_phases_until_the_run_ends(tmp_path, monkeypatch, manifest):
    api = api_with_pods(
        statuses=[
            {},
            status("Running", kfpRun="xyz"),
            status("Running", 1, kfpRun="abc"),
            status("Succeeded", 1, kfpRun="abc"),
        ]
    )
    api.logs["earlier"] = "2026-01-01T00:00:00.000000000Z first phase\n"
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        lines = list(follow_logs(Cluster.open(), "first-try", None, poll_s=0.1))
    assert sorted(lines) == [
        ("rollout", "8 of 8 \x1b[2Jsolved"),
        ("rollout", "first phase"),
        ("rollout", "plays"),
        ("update", "learns"),
    ]


def test_logs_of_a_pod_that_was_deleted_meanwhile_are_left_out(tmp_path, monkeypatch, manifest):
    api = api_with_pods(statuses=[status("Running", kfpRun="abc")])
    del api.logs["rollout-1"]
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        done = agentrl("logs", "first-try")
    assert (done.exit_code, done.stdout) == (0, "update    learns\n")
    assert "rollout: pod rollout-1 was deleted, and its log with it\n" in done.stderr


def test_logs_are_followed_over_an_outage_of_the_api_server(tmp_path, monkeypatch, manifest):
    statuses = [status("Running", kfpRun="abc"), status("Succeeded", kfpRun="abc")]
    api = api_with_pods(statuses=statuses, outages=[0, 2])
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        lines = list(follow_logs(Cluster.open(), "first-try", None, poll_s=0.1))
    assert ("update", "learns") in lines
    assert api.outages == []


def test_a_run_without_a_started_stage_is_reported(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest)
        done = agentrl("logs", "first-try")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "first-try: no stage has started in this phase; see: agentrl status first-try\n"
    )


def test_launcher_and_argo_lines_are_printed_only_with_all(tmp_path, monkeypatch, manifest):
    lines = [
        'time="2026-01-01T00:00:00.446Z" level=info msg="capturing logs" argo=true',
        "plays",
        "solved",
        "I0101 00:00:03.502999      27 launcher_v2.go:181] publish success.",
    ]
    timed = [f"2026-01-01T00:00:0{at}.000000000Z {line}\n" for at, line in enumerate(lines)]
    api = Api(
        pods=[pod("rollout-1", "rollout", "abc", DONE, 1)],
        logs={"rollout-1": "".join(timed)},
        statuses=[status("Running", kfpRun="abc"), status("Succeeded", kfpRun="abc")],
    )
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        followed_to_the_end = agentrl("logs", "first-try", "--follow")
        last = agentrl("logs", "first-try", "--tail", "1")
        everything = agentrl("logs", "first-try", "--all")
    assert followed_to_the_end.stdout == "rollout   plays\nrollout   solved\n"
    assert last.stdout == "rollout   solved\n"
    assert everything.stdout.splitlines() == [f"rollout   {line}" for line in lines]
