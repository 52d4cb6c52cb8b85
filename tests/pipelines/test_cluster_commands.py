"""`agentrl submit`, `status` and `logs`, against a small stand-in for the Kubernetes API."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrl_components.view import SilentView
from agentrl_envs.serving import running
from agentrl_pipelines.cli import main
from agentrl_pipelines.cluster_client import Cluster
from agentrl_pipelines.commands.logs import followed
from agentrl_pipelines.commands.status import age, parts
from agentrl_pipelines.commands.submit import watched

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: first-try}
spec:
  environments: [{name: rooms, builtin: babyai}]
  rollout: {tasks: 30, groupSize: 8}
  horizon: {phases: [{maxTurns: 3, iterations: 20}, {maxTurns: 8, iterations: 30}]}
"""
RUNS = "/apis/agentrl.dev/v1alpha1/namespaces/{namespace}/agentrlruns"
TOKEN = "sesame"


@dataclass
class Api:
    """The Kubernetes API, as far as the commands ask. Holds what it was told and what it tells."""

    runs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    """What the operator says, one status for each time that the run is read; the last one stays."""
    pods: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    refusal: dict[str, Any] | None = None
    asked: list[str] = field(default_factory=list)

    def app(self) -> Starlette:
        pods = "/api/v1/namespaces/{namespace}/pods"
        return Starlette(
            routes=[
                Route(RUNS, self.create, methods=["POST"]),
                Route(RUNS + "/{name}", self.get),
                Route(pods, self.list_pods),
                Route(pods + "/{name}/log", self.log),
            ]
        )

    async def create(self, request: Request) -> Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        if self.refusal is not None:
            return JSONResponse(self.refusal, status_code=self.refusal["code"])
        body = await request.json()
        at = (request.path_params["namespace"], body["metadata"]["name"])
        if at in self.runs:
            return self.status(409, "AlreadyExists", f'agentrlruns "{at[1]}" already exists', at[1])
        if request.query_params.get("dryRun") != "All":
            self.runs[at] = body
        return JSONResponse(body, status_code=201)

    async def get(self, request: Request) -> Response:
        at = (request.path_params["namespace"], request.path_params["name"])
        if at not in self.runs:
            return self.status(404, "NotFound", f'agentrlruns "{at[1]}" not found', at[1])
        told = self.statuses.pop(0) if len(self.statuses) > 1 else (self.statuses or [{}])[0]
        return JSONResponse(self.runs[at] | {"status": told})

    async def list_pods(self, request: Request) -> Response:
        selector = request.query_params["labelSelector"]
        self.asked.append(selector)
        wanted = dict(part.partition("=")[::2] for part in selector.split(","))
        found = [
            pod
            for pod in self.pods
            if all(
                key in pod["metadata"]["labels"] and value in ("", pod["metadata"]["labels"][key])
                for key, value in wanted.items()
            )
        ]
        return JSONResponse({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": found})

    async def log(self, request: Request) -> Response:
        assert request.query_params["container"] == "main"
        lines = self.logs[request.path_params["name"]].splitlines(keepends=True)
        lines = lines[-int(request.query_params.get("tailLines", len(lines))) :]
        if request.query_params.get("follow") == "True":
            return StreamingResponse(iter(lines), media_type="text/plain")
        return PlainTextResponse("".join(lines))

    @staticmethod
    def status(code: int, reason: str, message: str, name: str) -> JSONResponse:
        told = {"kind": "Status", "status": "Failure", "message": message, "reason": reason}
        details = {"name": name, "group": "agentrl.dev", "kind": "agentrlruns"}
        return JSONResponse(told | {"details": details, "code": code}, status_code=code)


def pod(name: str, stage: str | None, run: str, state: dict[str, Any], second: int) -> dict:
    labels = {"pipeline/runid": run} | ({"agentrl.dev/stage": stage} if stage else {})
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "creationTimestamp": f"2026-01-01T00:00:{second:02d}Z",
        },
        "status": {
            "phase": "Succeeded" if "terminated" in state else "Pending",
            "containerStatuses": [
                {"name": each, "state": state, "image": "i", "imageID": "i", "ready": True,
                 "restartCount": 0}
                for each in ("wait", "main")
            ],
        },
    }  # fmt: skip


DONE = {"terminated": {"exitCode": 0}}


@contextmanager
def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, api: Api) -> Iterator[None]:
    """The API on a port, and a kubeconfig that names it; its context is in namespace `lab`."""
    with running(api.app()) as url:
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}
            ],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield


def agentrl(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "run.yaml"
    path.write_text(MANIFEST)
    return str(path)


def test_submit_creates_the_run_and_says_what_to_do_next(tmp_path, monkeypatch, manifest):
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


def test_submit_tells_every_mistake_of_the_manifest_and_asks_nobody(
    tmp_path, monkeypatch, manifest
):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = agentrl("submit", manifest, "--set", "rollout.tasks=0", "--set", "seed=-1")
    assert done.exit_code == 2
    told = done.stderr.splitlines()
    assert [line.split(":")[0] for line in told] == ["spec.rollout.tasks", "spec.seed"]


def test_a_name_that_is_taken_is_told_with_the_way_out(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest, "-n", "other")
        done = agentrl("submit", manifest, "-n", "other")
    assert done.exit_code == 2
    assert done.stderr == (
        "metadata.name: a run 'first-try' is in namespace other already; change the name, or "
        "delete that run: kubectl delete agentrlrun first-try -n other\n"
    )


def test_a_dry_run_asks_the_api_server_and_creates_nothing(tmp_path, monkeypatch, manifest):
    api = Api()
    with cluster(tmp_path, monkeypatch, api):
        done = agentrl("submit", manifest, "--dry-run=server")
    assert done.exit_code == 0
    assert done.stdout == "first-try: the API server would create it in namespace lab\n"
    assert api.runs == {}


def test_each_cause_of_the_api_servers_refusal_is_a_line(tmp_path, monkeypatch, manifest):
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
    ("refusal", "told"),
    [
        ({"kind": "Status", "code": 404, "message": "the server could not find it"}, "knows no"),
        (
            {"kind": "Status", "code": 404, "details": {"name": "lab", "kind": "namespaces"}},
            "namespace: there is no lab; choose another with -n",
        ),
        ({"kind": "Status", "code": 403, "message": "u cannot create"}, "u cannot create; ask who"),
        ({"kind": "Status", "code": 500, "message": "etcd is gone"}, "500: etcd is gone"),
    ],
)
def test_what_the_cluster_lacks_is_an_error_with_a_fix(
    tmp_path, monkeypatch, manifest, refusal, told
):
    with cluster(tmp_path, monkeypatch, Api(refusal=refusal)):
        done = agentrl("submit", manifest)
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_cluster_the_command_says_so(tmp_path, monkeypatch, manifest):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "error: kubeconfig: " in agentrl("submit", manifest).stderr
    with cluster(tmp_path, monkeypatch, Api()):
        pass  # the server is gone, its kubeconfig is not
    done = agentrl("status", "first-try")
    assert done.exit_code == 1
    assert "cannot be reached" in done.stderr


def status(phase: str, index: int = 0, iteration: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "phase": phase, "phaseIndex": index, "iteration": iteration, "iterations": 50,
        "horizon": (3, 8)[index], **more,
    }  # fmt: skip


COURSE = [
    {},
    status("Running", message="phase 1 began"),
    status("Running", iteration=12, message="phase 1 began"),
    status("Running", 1, 25, success="40% [35, 45]"),
    status("Succeeded", 1, 50, success="81% [77, 85]"),
]


def test_a_run_that_is_watched_is_shown_phase_by_phase_until_it_ends(
    tmp_path, monkeypatch, manifest
):
    view = SilentView()
    with cluster(tmp_path, monkeypatch, Api(statuses=list(COURSE))):
        agentrl("submit", manifest)
        end = watched(Cluster.open(), "first-try", view, poll_s=0.0)
    assert end["phase"] == "Succeeded"
    assert view.stages == ["pending", "phase 1/2 · 3 turns", "phase 2/2 · 8 turns"]
    assert view.done == 5  # iterations of the second phase, when it was last seen
    assert view.notes == [
        "phase 1 began",
        "held-out success 40% [35, 45] after 25 iterations",
        "held-out success 81% [77, 85] after 50 iterations",
    ]


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (status("Succeeded", success="81% [77, 85]"), 0, "first-try: succeeded; held-out success"),
        (status("Failed", message="the model is too large"), 1, "first-try: failed"),
    ],
)
def test_submit_that_waits_ends_as_the_run_does(tmp_path, monkeypatch, manifest, end, code, told):
    with cluster(tmp_path, monkeypatch, Api(statuses=[end])):
        done = agentrl("submit", manifest, "--wait")
    assert done.exit_code == code
    assert told in done.stdout
    assert done.stderr == ("the model is too large\n" if code else "")


RUNNING = {
    "metadata": {
        "name": "first-try", "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": yaml.safe_load(MANIFEST)["spec"],
    "status": status(
        "Running", 1, 25, success="40% [35, 45]", attempt=1,
        message="phase 2 is \x1b[31mplayed\x1b[0m",
        startTime="2026-01-01T00:01:00Z", kfpRun="abc", kfpUrl="http://kfp/#/runs/abc",
        mlflowUrl="http://mlflow/#/1", bestCheckpoint="s3://agentrl/lab/checkpoints/000020",
        cost={"tokens": 1234567, "environmentSeconds": 83, "deviceSeconds": 3723},
        conditions=[
            {"type": "Progressing", "status": "True", "reason": "Running", "message": "it runs",
             "lastTransitionTime": "2026-01-01T01:59:15Z"},
        ],
    ),
}  # fmt: skip


def test_status_shows_how_a_run_stands():
    console = Console(width=100, record=True, file=io.StringIO())
    for part in parts(RUNNING, datetime(2026, 1, 1, 2, tzinfo=UTC)):
        console.print(part)
    text = console.export_text()
    for told in (
        "first-try in namespace lab",
        "Running (started anew 1 time)",
        "25 of 50",
        "40% [35, 45]",
        "s3://agentrl/lab/checkpoints/000020",
        "http://kfp/#/runs/abc",
        "http://mlflow/#/1",
        "1,234,567 tokens, environments 1:23, devices 1:02:03",
        "created 2h ago, began 1h59m ago",
    ):
        assert told in text
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["✓", "1", "3", "20"] in rows
    assert ["▶", "2", "8", "30"] in rows
    assert ["Progressing", "True", "Running", "45s", "it", "runs"] in rows


def test_a_run_that_the_operator_has_not_seen_yet_has_a_status_too(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest)
        done = agentrl("status", "first-try")
        assert json.loads(agentrl("status", "first-try", "-o", "json").stdout)["spec"]
    assert done.exit_code == 0
    assert "Pending" in done.stdout


def test_the_status_of_a_run_that_is_not_there_says_where_was_looked(tmp_path, monkeypatch):
    with cluster(tmp_path, monkeypatch, Api()):
        done = agentrl("status", "first-try")
    assert done.exit_code == 1
    assert done.stderr == (
        "error: first-try: there is no such run in namespace lab; choose another with -n\n"
    )


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("2026-01-01T00:00:45+00:00", "45s"),
        ("2026-01-01T00:12:10+00:00", "12m"),
        ("2026-01-01T03:20:00+00:00", "3h20m"),
        ("2026-01-03T04:00:00+00:00", "2d4h"),
        ("2025-12-31T00:00:00+00:00", "0s"),
    ],
)
def test_an_age_is_told_as_kubectl_tells_it(now, told):
    assert age("2026-01-01T00:00:00Z", datetime.fromisoformat(now)) == told


def a_phase(**more: Any) -> Api:
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


def test_logs_of_the_stages_are_laid_side_by_side_by_time(tmp_path, monkeypatch, manifest):
    api = a_phase(statuses=[status("Running", kfpRun="abc")])
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
    assert done.stderr == "evaluate: has not started (ImagePullBackOff: no such image)\n"
    assert last.stdout == "rollout   8 of 8 �[2Jsolved\n"
    assert api.asked == [
        "pipeline/runid=abc,agentrl.dev/stage",
        "pipeline/runid=abc,agentrl.dev/stage=rollout",
    ]


def test_logs_are_followed_from_phase_to_phase_until_the_run_ends(tmp_path, monkeypatch, manifest):
    api = a_phase(
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
        said = list(followed(Cluster.open(), "first-try", None, poll_s=0.1))
    assert said[0] == ("rollout", "first phase")
    assert sorted(said[1:]) == [
        ("rollout", "8 of 8 \x1b[2Jsolved"),
        ("rollout", "plays"),
        ("update", "learns"),
    ]


def test_a_run_without_a_stage_yet_is_told_so(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest)
        done = agentrl("logs", "first-try")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "first-try: no stage has begun in this phase; see: agentrl status first-try\n"
    )


def test_what_kubeflow_and_argo_say_around_a_stage_is_shown_on_demand(
    tmp_path, monkeypatch, manifest
):
    said = [
        'time="2026-01-01T00:00:00.446Z" level=info msg="capturing logs" argo=true',
        "plays",
        "solved",
        "I0101 00:00:03.502999      27 launcher_v2.go:181] publish success.",
    ]
    timed = [f"2026-01-01T00:00:0{at}.000000000Z {line}\n" for at, line in enumerate(said)]
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
    assert everything.stdout.splitlines() == [f"rollout   {line}" for line in said]
