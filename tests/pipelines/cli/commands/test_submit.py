"""`agentrl submit` with a stub of the Kubernetes API."""

import pytest
from free_ports import silent_port
from kubernetes_stub import Api, agentrl, cluster, status, use_cluster

from agentrl_components.run.progress import SilentProgressView
from agentrl_pipelines.cli.commands.submit import watch
from agentrl_pipelines.cli.kube_client import Cluster, UnavailableError


def test_submit_creates_the_run_and_prints_the_next_commands(tmp_path, monkeypatch, manifest):
    api = Api()
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, "--seed", "7", "--set", "rollout.tasks=12")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "first-try: created in namespace lab",
        "  agentrl status first-try -n lab",
        "  agentrl logs first-try -n lab -f",
    ]
    created = api.runs["lab", "first-try"]
    assert (created["spec"]["seed"], created["spec"]["rollout"]["tasks"]) == (7, 12)
    assert created["metadata"] == {"name": "first-try", "namespace": "lab"}
    assert "algorithm" not in created["spec"]  # defaults are the API server's


def test_labels_and_annotations_of_the_manifest_are_sent(tmp_path, monkeypatch, manifest):
    labels = {"kueue.x-k8s.io/priority-class": "urgent", "team": "rl"}
    annotations = {"owner": "me", "Docs.Example/note": "two words"}
    given = ("--set", f"metadata.labels={labels}", "--set", f"metadata.annotations={annotations}")
    api = Api()
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, *given)
    assert (done.exit_code, done.stderr) == (0, "")
    sent = api.runs["lab", "first-try"]["metadata"]
    name = {"name": "first-try", "namespace": "lab"}
    assert sent == name | {"labels": labels, "annotations": annotations}


def test_submit_prints_warnings_about_the_manifest(tmp_path, monkeypatch, manifest):
    api = Api()
    fields = ("--set", "evaluation.every=3", "--set", "update.checkpointEvery=2")
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, *fields)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: spec.evaluation.every: is 3, and spec.update.checkpointEvery")
    assert ("lab", "first-try") in api.runs


def test_submit_reports_every_manifest_error_without_a_request(tmp_path, monkeypatch, manifest):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = agentrl("submit", manifest, "--set", "rollout.tasks=0", "--set", "seed=-1")
    assert done.exit_code == 2
    expected = done.stderr.splitlines()
    assert [line.split(":")[0] for line in expected] == ["spec.rollout.tasks", "spec.seed"]


def test_an_existing_name_is_reported_with_a_fix(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest, "-n", "other")
        done = agentrl("submit", manifest, "-n", "other")
    assert done.exit_code == 2
    assert done.stderr == (
        "metadata.name: a run 'first-try' already exists in namespace other; change the name, or "
        "delete that run: kubectl delete agentrlrun first-try -n other\n"
    )


def test_a_dry_run_creates_nothing(tmp_path, monkeypatch, manifest):
    api = Api()
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, "--dry-run=server")
    assert done.exit_code == 0
    assert done.stdout == "first-try: the API server accepts it in namespace lab\n"
    assert api.runs == {}


def test_each_cause_of_a_rejection_is_one_line(tmp_path, monkeypatch, manifest):
    causes = [
        {"reason": "FieldValueInvalid", "field": "spec.seed", "message": "must be less than 9"},
        {"reason": "FieldValueTypeInvalid", "field": "spec.new", "message": "unknown field"},
    ]
    refusal = {"kind": "Status", "code": 422, "message": "m", "details": {"causes": causes}}
    with cluster(tmp_path, monkeypatch, Api(refusal=refusal)):
        done = agentrl("submit", manifest)
    assert done.exit_code == 2
    assert done.stderr == "spec.seed: must be less than 9\nspec.new: unknown field\n"


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (
            {"kind": "Status", "code": 404, "message": "the server could not find it"},
            "has no AgentRLRun resource",
        ),
        (
            {"kind": "Status", "code": 404, "details": {"name": "lab", "kind": "namespaces"}},
            "namespace: lab does not exist; choose another with -n",
        ),
        (
            {"kind": "Status", "code": 403, "message": "u cannot create"},
            "u cannot create; ask the administrator",
        ),
        ({"kind": "Status", "code": 500, "message": "etcd is gone"}, "500: etcd is gone"),
    ],
)
def test_cluster_errors_name_a_fix(tmp_path, monkeypatch, manifest, refusal, expected):
    with cluster(tmp_path, monkeypatch, Api(refusal=refusal)):
        done = agentrl("submit", manifest)
    assert done.exit_code == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_or_unreachable_cluster_is_reported(tmp_path, monkeypatch, manifest):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "error: kubeconfig: " in agentrl("submit", manifest).stderr
    with silent_port() as port:
        use_cluster(tmp_path, monkeypatch, f"http://127.0.0.1:{port}")
        done = agentrl("status", "first-try")
    assert done.exit_code == 1
    assert "cannot be reached" in done.stderr


STATUSES = [
    {},
    status("Running", message="phase 1 began"),
    status("Running", iteration=12, message="phase 1 began"),
    status("Running", 1, 25, success="40% [35, 45]"),
    status("Succeeded", 1, 50, success="81% [77, 85]"),
]


def test_watch_shows_phase_by_phase_until_the_run_ends(tmp_path, monkeypatch, manifest):
    view = SilentProgressView()
    with cluster(tmp_path, monkeypatch, Api(statuses=list(STATUSES))):
        agentrl("submit", manifest)
        end = watch(Cluster.open(), "first-try", view, poll_s=0.0)
    assert end["state"] == "Succeeded"
    assert view.stages == ["pending", "phase 1/2 · 3 turns", "phase 2/2 · 8 turns"]
    assert view.done == 5  # iterations of the second phase at the last poll while it ran
    assert view.notes == [
        "phase 1 began",
        "held-out success 40% [35, 45] after 25 iterations",
        "held-out success 81% [77, 85] after 50 iterations",
    ]


REJECTED = status("Pending", message="spec.seed: -1 is below 0") | {
    "conditions": [{"type": "Accepted", "status": "False", "reason": "InvalidSpec"}]
}


def test_submit_wait_does_not_wait_for_a_run_that_is_not_accepted(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api(statuses=[{}, REJECTED])):
        done = agentrl("submit", manifest, "--wait")
    assert done.exit_code == 1
    assert "first-try: not accepted" in done.stdout
    assert done.stderr == "spec.seed: -1 is below 0\n"


@pytest.mark.parametrize(
    ("end", "code", "expected"),
    [
        (status("Succeeded", success="81% [77, 85]"), 0, "first-try: succeeded; held-out success"),
        (status("Failed", message="the model is too large"), 1, "first-try: failed"),
    ],
)
def test_submit_wait_exits_with_the_outcome_of_the_run(
    tmp_path, monkeypatch, manifest, end, code, expected
):
    with cluster(tmp_path, monkeypatch, Api(statuses=[end])):
        done = agentrl("submit", manifest, "--wait")
    assert done.exit_code == code
    assert expected in done.stdout
    assert done.stderr == ("the model is too large\n" if code else "")


@pytest.mark.parametrize(
    ("statuses", "seen"),
    [
        ([status("Running", 1, 49)], "running, iteration 49 of 50"),
        ([{}], "pending"),
        ([], "pending"),
    ],
)
def test_submit_wait_says_that_the_run_was_deleted_and_what_was_last_seen(
    tmp_path, monkeypatch, manifest, statuses, seen
):
    api = Api(statuses=statuses, deleted_after=len(statuses))
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, "--wait")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "first-try: deleted"
    assert done.stderr == (
        f"the run was deleted; last seen: {seen}. Whether it had ended is not known\n"
    )


def test_submit_wait_warns_of_a_run_that_may_be_deleted_before_its_end_is_seen(
    tmp_path, monkeypatch, manifest
):
    end = status("Succeeded", 1, 50)
    short = ("--set", "ttlSecondsAfterFinished=0")
    with cluster(tmp_path, monkeypatch, Api(statuses=[end])):
        done = agentrl("submit", manifest, "--wait", *short)
        assert done.stderr == (
            "warning: spec.ttlSecondsAfterFinished: is 0; --wait may not see the end of the run "
            "before it is deleted, and then exits with 1; set it to 60 or more\n"
        )
        assert agentrl("submit", manifest, "-n", "other", *short).stderr == ""


def test_watch_waits_for_an_api_server_that_does_not_answer(tmp_path, monkeypatch, manifest):
    view = SilentProgressView()
    api = Api(statuses=list(STATUSES), outages=[0, 2, 0, 1])
    with cluster(tmp_path, monkeypatch, api):
        agentrl("submit", manifest)
        end = watch(Cluster.open(), "first-try", view, poll_s=0.0)
    assert end["state"] == "Succeeded"
    assert api.outages == []


def test_an_api_server_that_stays_away_is_reported_after_a_while(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api(outages=[1000])):
        agentrl("submit", manifest)
        with pytest.raises(UnavailableError, match="503: Service Unavailable"):
            Cluster.open().poll("first-try", outage_s=0.1)


@pytest.mark.parametrize("text", ["not: [yaml", "[]", "a: b: c"])
def test_a_damaged_kubeconfig_is_named(tmp_path, monkeypatch, manifest, text):
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    done = agentrl("submit", manifest)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: kubeconfig: ")


def test_a_folder_in_the_place_of_a_kubeconfig_is_named(tmp_path, monkeypatch, manifest):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    done = agentrl("submit", manifest)
    assert (done.exit_code, "Traceback" in done.stderr) == (1, False)
    assert str(tmp_path) in done.stderr
