import json
import os
import re
from contextlib import redirect_stdout

import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec import parse
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_envs.environments.corridor import VERBS
from agentrl_envs.server.run import running
from agentrl_pipelines.cli.main import main
from agentrl_pipelines.local.evaluation import evaluate_endpoint
from agentrl_pipelines.local.run import run_local

MANIFEST = {
    "apiVersion": "agentrl.dev/v1alpha1",
    "kind": "AgentRLRun",
    "metadata": {"name": "walk"},
    "spec": {
        "model": {
            "source": "tiny",
            "context": 64,
            "tiny": {"layers": 1, "hidden": 32, "heads": 2, "kvHeads": 1, "intermediate": 32},
        },
        "environments": [{"name": "corridor", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 5, "iterations": 3}]},
        "rollout": {"tasks": 4, "groupSize": 2, "actions": "admissible", "maxTokensPerTurn": 4},
        "update": {"learningRate": 1e-3, "checkpointEvery": 2},
        "evaluation": {"tasks": 10, "samples": 2, "turnSweep": [2, 5]},
        "compute": {"workers": 1, "device": "cpu"},
    },
}


class Endpoint:
    """A chat completions API whose model solves every corridor. Records the requests."""

    def __init__(
        self,
        unavailable: int = 0,
        key: str | None = None,
        breaks_after: int | None = None,
        fails_on: str | None = None,
        cut: bool = False,
    ) -> None:
        """`fails_on`: each request whose last message contains it is answered with 503. `cut`:
        replies end at the largest number of tokens, within the model's thoughts."""
        self.requests: list[dict] = []
        self.failed = 0
        self._fails_on, self._cut = fails_on, cut
        self._breaks_after = breaks_after
        self._unavailable = unavailable
        self._key = key
        self.app = Starlette(
            routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])]
        )

    async def _complete(self, request: Request) -> JSONResponse:
        given = request.headers.get("authorization")
        if self._key is not None and given != f"Bearer {self._key}":
            return JSONResponse({"error": {"message": f"no such key: {given}"}}, 401)
        if self._unavailable:
            self._unavailable -= 1
            return JSONResponse({"error": {"message": "busy"}}, 503, {"retry-after-ms": "1"})
        if self._breaks_after is not None and len(self.requests) >= self._breaks_after:
            return JSONResponse({"error": {"message": "no such model"}}, 404)
        body = await request.json()
        if self._fails_on is not None and self._fails_on in body["messages"][-1]["content"]:
            self.failed += 1
            return JSONResponse({"error": {"message": "overloaded"}}, 503, {"retry-after-ms": "1"})
        self.requests.append(body)
        content = None if self._cut else solution(body["messages"][-1]["content"])
        message = {"role": "assistant", "content": content}
        reason = "length" if self._cut else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        return JSONResponse(
            {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
            | {"choices": [choice]}
            | {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}
        )


def solution(observation: str) -> str:
    """The action that solves the corridor or moves towards its door."""
    seen = re.match(r"corridor \d+ (\w+) door (left|right|here)", observation)
    assert seen is not None
    return VERBS[seen[1]] if seen[2] == "here" else seen[2]


def run_eval(tmp_path, *options: str) -> Result:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(MANIFEST))
    return CliRunner().invoke(main, ["eval", str(file), "--out", str(tmp_path / "out"), *options])


def test_an_endpoint_is_evaluated_beside_the_random_policy(tmp_path, monkeypatch):
    monkeypatch.setenv("WALK_KEY", "sesame-17")
    endpoint = Endpoint(unavailable=1, key="sesame-17")
    with running(endpoint.app) as url:
        options = ("--openai", f"{url}/v1", "--model-name", "walker", "--key-env", "WALK_KEY")
        result = run_eval(tmp_path, *options, "--tasks", "6", "--temperature", "0.5")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert (found["policy"]["success"], found["policy"]["n"]) == (1.0, 6)
    assert found["actions"] == "admissible"  # the prompts list them
    assert found["policy"]["pass_at"] == {"1": 1.0, "2": 1.0}
    assert found["policy"]["turn_sweep"]["2"]["success"] < 1.0
    assert found["random"]["success"] < 1.0
    first = endpoint.requests[0]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert "Reply with one of these actions:" in first["messages"][1]["content"]
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("walker", 0.5, 4)
    longest = max(endpoint.requests, key=lambda body: len(body["messages"]))["messages"]
    assert [m["role"] for m in longest[1:5]] == ["user", "assistant", "user", "assistant"]
    page = (tmp_path / "out" / "eval.html").read_text()
    assert "100.0 % of 6 held-out tasks solved" in page
    written = page + json.dumps(found) + result.output
    assert "sesame" not in written


def test_an_interrupted_evaluation_of_an_endpoint_is_continued_by_the_same_command(tmp_path):
    # 12 episodes of one to five requests; the first process ends after 14 requests.
    options = ("--tasks", "6", "--sweep", "2,5", "--concurrency", "2", "--model-name", "walker")
    endpoint = Endpoint(breaks_after=14)
    with running(endpoint.app) as url:
        broken = run_eval(tmp_path, "--openai", f"{url}/v1", *options)
        assert broken.exit_code == 1
        assert "no such model" in broken.stderr
        kept = len(list((tmp_path / "out" / "episodes").iterdir()))
        assert 0 < kept < 12
        endpoint._breaks_after = None
        result = run_eval(tmp_path, "--openai", f"{url}/v1", *options)
        found = json.loads((tmp_path / "out" / "eval.json").read_text())
        requests = len(endpoint.requests)
        assert run_eval(tmp_path, "--openai", f"{url}/v1", *options).exit_code == 0
        assert len(endpoint.requests) == requests  # a finished evaluation asks nothing
        other = run_eval(tmp_path, "--openai", f"{url}/v1", *options[:-1], "runner")
    assert result.exit_code == 0, result.output
    assert (found["policy"]["success"], found["resumed"]) == (1.0, kept)
    lines = (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()
    turns = sum(len(json.loads(line)["moves"]) for line in lines)
    # Each turn is one request of 10 + 2 tokens; a turn of an unfinished episode is not counted.
    assert (len(lines), found["prompt_tokens"], found["completion_tokens"]) == (
        12,
        10 * turns,
        2 * turns,
    )
    assert other.exit_code == 2
    assert "has the result of another evaluation (its model is walker at" in other.stderr


def test_upstreams_agent_retries_for_ever_and_here_an_episode_is_lost_and_reported(tmp_path):
    """AgentGym's agent repeats a failed request in a loop without an end. Here a request is sent
    five times, an episode begins three times, and then it is lost and not counted as failed."""
    endpoint = Endpoint(fails_on="red door")
    options = ("--tasks", "6", "--samples", "1", "--set", "rollout.maxLostShare=0.9")
    with running(endpoint.app) as url:
        result = run_eval(tmp_path, "--openai", f"{url}/v1", "--model-name", "walker", *options)
    assert result.exit_code == 0, result.output
    policy = json.loads((tmp_path / "out" / "eval.json").read_text())["policy"]
    lost = policy["lost"]
    assert 0 < lost < 6
    assert (policy["success"], policy["n"]) == (1.0, 6 - lost)
    assert endpoint.failed == lost * 5 * 3
    reported = f"{lost} episodes were lost to failures of the environment or the endpoint"
    assert reported in " ".join(result.output.split())
    assert f"{lost} episodes lost to failures" in (tmp_path / "out" / "eval.html").read_text()


def test_cut_and_empty_replies_are_counted_and_explained(tmp_path):
    """A model that thinks uses all tokens for its thoughts: 2 tasks of 5 turns, 10 replies."""
    with running(Endpoint(cut=True).app) as url:
        options = ("--openai", f"{url}/v1", "--model-name", "thinker", "--tasks", "2")
        options = (*options, "--samples", "1", "--set", "evaluation.turnSweep=[]")
        result, again = run_eval(tmp_path, *options), run_eval(tmp_path, *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert (found["replies"], found["cut_replies"], found["empty_replies"]) == (10, 10, 10)
    note = "100.0 % of 10 replies ended at rollout.maxTokensPerTurn, and 100.0 % were empty"
    for output in (result.output, again.output):  # the second from the log
        assert f"{note}: success is that of incomplete replies. Raise" in " ".join(output.split())
    assert note in (tmp_path / "out" / "eval.html").read_text()


def test_an_endpoint_is_not_asked_about_text_without_instructions(tmp_path):
    levels = "environments[0]={name: babyai, builtin: babyai}"
    result = run_eval(tmp_path, "--openai", "http://h/v1", "--model-name", "m", "--set", levels)
    assert result.exit_code == 2
    assert "spec.environments[0].options.text: is missing: the default, terse" in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_endpoint_that_never_answers_ends_the_evaluation_with_its_error(tmp_path):
    endpoint = Endpoint(fails_on="door")
    options = ("--tasks", "2", "--samples", "1", "--concurrency", "1")
    with running(endpoint.app) as url:
        result = run_eval(tmp_path, "--openai", f"{url}/v1", "--model-name", "walker", *options)
    assert result.exit_code == 1
    assert endpoint.failed == 2 * 5 * 3
    assert "overloaded" in result.stderr


def test_upstreams_evaluator_raises_on_several_episodes_and_here_each_task_has_several(tmp_path):
    """AgentGym's `Evaluator.eval` takes the truth value of an array of rewards, which raises unless
    there is one episode. Here the success of a task is the mean over its samples."""
    with running(Endpoint().app) as url:
        options = ("--tasks", "3", "--samples", "4", "--sweep", "2,5")
        result = run_eval(tmp_path, "--openai", f"{url}/v1", "--model-name", "walker", *options)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "eval.json").read_text())["policy"]
    assert (found["n"], found["success"]) == (3, 1.0)
    assert found["pass_at"] == {"1": 1.0, "2": 1.0, "4": 1.0}
    # Its model always walks straight to the door, so the 4 samples of a task agree.
    lines = (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()
    turns = [len(json.loads(line)["moves"]) for line in lines]
    assert len(turns) == 3 * 4
    within_2 = sum(number <= 2 for number in turns) / 12
    assert found["turn_sweep"]["2"]["success"] == pytest.approx(within_2)


def test_a_sweep_is_drawn_and_written_for_an_endpoint_and_played_once(tmp_path):
    endpoint = Endpoint()
    with running(endpoint.app) as url:
        options = ("--openai", f"{url}/v1", "--model-name", "walker", "--sweep", "1,2,5")
        result = run_eval(tmp_path, *options, "--tasks", "6", "--samples", "1")
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "out" / "scaling.json").read_text())
    lengths = [
        len(json.loads(line)["moves"])
        for line in (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()
    ]
    assert len(endpoint.requests) == sum(lengths)
    for turns in (1, 2, 5):
        solved = sum(length <= turns for length in lengths) / 6
        assert written["success"][str(turns)]["success"] == pytest.approx(solved)
    assert (tmp_path / "out" / "scaling.png").read_bytes().startswith(b"\x89PNG")


class StageCounter:
    """Counts the episodes of each stage that has a total."""

    def __init__(self) -> None:
        self.stages: list[list] = []
        self.resumed = 0

    def stage(self, name, total=None):
        self.stages.append([name, total, 0])

    def episode(self, episode, usage, resumed):
        self.stages[-1][2] += 1
        self.resumed += resumed

    def close(self):
        pass


@pytest.mark.parametrize(
    ("sweep", "max_turns", "asked"),
    [
        ([1, 5], None, [["ask the endpoint, 5 turns allowed", 12, 12]]),
        (
            [1, 9],
            None,
            [
                ["ask the endpoint, 5 turns allowed", 12, 12],
                ["ask the endpoint, 9 turns allowed", 12, 12],
            ],
        ),
        ([1, 9], 9, [["ask the endpoint, 9 turns allowed", 12, 12]]),
    ],
)
def test_a_sweep_beyond_the_turn_limit_is_a_second_stage_with_its_own_episodes(
    tmp_path, sweep, max_turns, asked
):
    """6 tasks of 2 samples each."""
    evaluation = {"tasks": 6, "samples": 2, "turnSweep": sweep, "maxTurns": max_turns}
    run = parse(MANIFEST | {"spec": MANIFEST["spec"] | {"evaluation": evaluation}})
    view = StageCounter()
    with running(Endpoint().app) as url:
        evaluate_endpoint(run, f"{url}/v1", "walker", "key", view, tmp_path)
    assert [stage for stage in view.stages if stage[1] is not None] == asked


def test_the_view_is_told_which_episodes_an_earlier_process_had_finished(tmp_path):
    views = []
    with running(Endpoint().app) as url:
        for tasks in (2, 5):  # of one sample each
            run = parse(MANIFEST | {"spec": MANIFEST["spec"] | {"evaluation": {"tasks": tasks}}})
            views.append(StageCounter())
            evaluate_endpoint(run, f"{url}/v1", "walker", "key", views[-1], tmp_path)
    assert [(view.stages[-1][2], view.resumed) for view in views] == [(2, 0), (5, 2)]


def test_the_result_is_set_beside_the_papers_table(tmp_path):
    changed = ("--set", "environments[0].name=goto", "--paper", "babyai", "--samples", "1")
    with running(Endpoint().app) as url:
        result = run_eval(
            tmp_path, "--openai", f"{url}/v1", "--model-name", "walker", "--tasks", "4", *changed
        )
    assert result.exit_code == 0, result.output
    paper = json.loads((tmp_path / "out" / "eval.json").read_text())["paper"]
    assert [row["category"] for row in paper["rows"]][:2] == ["GoTo", "Pickup"]
    assert paper["rows"][1]["found"] is None
    assert paper["rows"][0]["published"]["ScalingInter-7B"] == 100.0
    assert paper["rows"][-1]["published"]["o3"] == 94.44
    here, there = paper["conditions"]
    assert "walker" in here
    assert "5 turns" in here
    assert "20 turns in the released script" in there
    assert "Beside the paper" in (tmp_path / "out" / "eval.html").read_text()


def test_other_tasks_than_the_papers_have_no_row_for_all_beside_it(tmp_path):
    options = ("--model-name", "walker", "--tasks", "4", "--paper", "babyai", "--samples", "1")
    with running(Endpoint().app) as url:
        result = run_eval(tmp_path, "--openai", f"{url}/v1", *options)
    assert result.exit_code == 0, result.output
    paper = json.loads((tmp_path / "out" / "eval.json").read_text())["paper"]
    assert {(row["tasks"], row["found"]) for row in paper["rows"]} == {(0, None)}
    assert "4 of 4 tasks are in none of the paper's categories" in paper["conditions"][0]
    assert "examples/evaluation/babyai.yaml" in paper["conditions"][0]


def test_a_refused_key_is_reported_but_not_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("WALK_KEY", "wrong-key")
    with running(Endpoint(key="sesame-17").app) as url:
        options = ("--openai", f"{url}/v1", "--model-name", "walker", "--key-env", "WALK_KEY")
        result = run_eval(tmp_path, *options)
    assert result.exit_code == 1
    assert (
        f"--openai: {url}/v1 refused model 'walker': the key is missing or wrong" in result.stderr
    )
    assert "wrong-key" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "answer",
    [
        HTMLResponse("<html>Welcome</html>"),
        Response("<html>Welcome</html>", media_type="application/json"),
        JSONResponse({"welcome": True}),
    ],
    ids=["html", "html-as-json", "another-object"],
)
def test_an_answer_that_is_no_chat_completion_is_reported(tmp_path, answer):
    async def welcome(request: Request) -> Response:
        return answer

    with running(Starlette(routes=[Route("/{path:path}", welcome, methods=["POST"])])) as url:
        result = run_eval(tmp_path, "--openai", url, "--model-name", "walker", "--tasks", "2")
    assert result.exit_code == 1
    assert f"--openai: {url} did not answer with a chat completion" in result.stderr
    assert "Traceback" not in result.output


def test_an_unset_key_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("WALK_KEY", raising=False)
    options = ("--openai", "http://127.0.0.1:9/v1", "--model-name", "w", "--key-env", "WALK_KEY")
    result = run_eval(tmp_path, *options)
    assert (result.exit_code, "--key-env: WALK_KEY is not set" in result.stderr) == (2, True)


def test_an_endpoint_that_does_not_answer_is_an_error_before_anything_is_played(tmp_path):
    result = run_eval(tmp_path, "--openai", "http://127.0.0.1:9/v1", "--model-name", "walker")
    assert result.exit_code == 1
    assert (
        "--openai: http://127.0.0.1:9/v1 does not answer: Connection error.; check the address"
        in result.stderr
    )
    assert "episodes were lost" not in result.output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            ["--openai", "localhost:8000", "--model-name", "w"],
            "--openai: localhost:8000 is not an HTTP URL; write one, such as http://localhost:8000",
        ),
        (["--model", "tiny", "--root", "r"], "--root: cannot be combined with --model"),
        (["--checkpoint", "3"], "--checkpoint: requires --root"),
        (["--openai", "http://x/v1"], "--model-name: required with --openai"),
        (["--key-env", "K"], "--key-env: has no effect without --openai"),
        (["--timeout", "9"], "--timeout: has no effect without --openai"),
        (["--tasks", "-3"], "spec.evaluation.tasks"),
        (["--sweep", "4,2"], "spec.evaluation.turnSweep"),
        (["--root", "/nowhere"], "--root: /nowhere"),
    ],
)
def test_an_option_without_effect_is_named(tmp_path, options, named):
    result = run_eval(tmp_path, *options)
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.output


def test_the_evaluation_of_a_checkpoint_equals_that_of_the_run(tmp_path):
    root = tmp_path / "root"
    run_local(parse(MANIFEST), root, SilentProgressView(), MemoryTracker())
    after = json.loads((root / "report.json").read_text())["heldout"]
    result = run_eval(tmp_path, "--root", str(root), "--checkpoint", "last")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert found["policy"] | {"name": "after"} == after["after"]
    assert found["random"] == after["random"]

    folder, out = (root / "store" / "checkpoints" / "000003").as_uri(), tmp_path / "of_model"
    result = run_eval(tmp_path, "--model", folder, "--out", str(out))
    assert result.exit_code == 0, result.output
    found = json.loads((out / "eval.json").read_text())
    assert found["policy"] | {"name": "after"} == after["after"]

    result = run_eval(tmp_path, "--root", str(root), "--checkpoint", "0")
    assert result.exit_code == 2
    assert "store/checkpoints/000003/, not file:///" in result.stderr

    for number in ("0", "3"):  # the folder of each without --out
        options = ("--root", str(root), "--checkpoint", number, "--tasks", "2", "--samples", "1")
        invoked = CliRunner().invoke(main, ["eval", str(tmp_path / "run.json"), *options])
        assert invoked.exit_code == 0, invoked.output
    each = [json.loads(path.read_text()) for path in sorted((root / "eval").glob("*/eval.json"))]
    assert [one["model"].split("/")[-2] for one in each] == ["000000", "000003"]

    result = run_eval(tmp_path, "--root", str(root), "--checkpoint", "77")
    assert result.exit_code == 2
    assert "has no checkpoint 77; give best, last or one of 0, " in result.stderr


def test_a_result_of_weights_is_replaced_by_the_same_command_only(tmp_path):
    sweep = ("--tasks", "3", "--samples", "1", "--sweep", "2,5")
    assert run_eval(tmp_path, *sweep).exit_code == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(written) == ["eval.html", "eval.json", "scaling.json", "scaling.png"]
    tasks, samples, turns = ("--tasks", "2"), ("--samples", "2"), ("--max-turns", "4")
    for changed, reason in (
        (tasks, "evaluation.tasks is 3, not 2"),
        (samples, "evaluation.samples is 1, not 2"),
        (turns, "evaluation.maxTurns is 5, not 4"),
        (("--sweep", "2"), "evaluation.turnSweep is [2, 5], not [2]"),
        (("--set", "model.context=128"), "model.context is 64, not 128"),
        (
            ("--set", "environments[0].options={turns: 4}"),
            "environments[corridor].options.turns is None, not 4",
        ),
    ):
        other = run_eval(tmp_path, *sweep, *changed)
        assert other.exit_code == 2
        assert f"has the result of another evaluation (its {reason})" in other.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == written
    again = run_eval(tmp_path, *sweep, "--concurrency", "1")  # on which no result depends
    assert again.exit_code == 0, again.output


def test_variables_of_the_manifest_are_set_unless_the_process_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv("WALK_NEW", "")  # so that it is deleted after the test
    monkeypatch.delenv("WALK_NEW")
    monkeypatch.setenv("WALK_OLD", "given")
    both = "compute.env=[{name: WALK_NEW, value: a}, {name: WALK_OLD, value: b}]"
    result = run_eval(tmp_path, "--model", "file:///nowhere", "--set", both)
    assert result.exit_code == 2
    assert (os.environ["WALK_NEW"], os.environ["WALK_OLD"]) == ("a", "given")


def test_a_folder_that_cannot_be_written_to_is_named_before_anything_is_played(tmp_path):
    (tmp_path / "file").touch()
    endpoint = Endpoint()
    with running(endpoint.app) as url:
        for options in (("--openai", f"{url}/v1", "--model-name", "walker"), ("--tasks", "2")):
            result = run_eval(tmp_path, *options, "--out", str(tmp_path / "file" / "out"))
            assert result.exit_code == 1
            assert "file/out: Not a directory; give a folder that can be written" in result.stderr
            assert result.stdout == ""
    assert endpoint.requests == []


def test_a_result_that_cannot_be_written_is_printed(tmp_path):
    """As when the disk is full in the end: here a folder has the name of the file."""
    (tmp_path / "out" / "eval.html").mkdir(parents=True)
    result = run_eval(tmp_path, "--tasks", "2", "--samples", "1")
    assert result.exit_code == 1
    assert "2 held-out tasks" in result.stdout
    assert "written to" not in result.stdout
    assert "eval.html: in file://" in result.stderr
    assert "Is a directory" in result.stderr


def test_the_turn_limits_of_environments_are_shown_where_they_differ(tmp_path):
    short = "{name: short, builtin: corridor, maxTurns: [2]}"
    both = f"environments=[{{name: corridor, builtin: corridor}}, {short}]"
    with running(Endpoint().app) as url:
        options = ("--openai", f"{url}/v1", "--model-name", "walker", "--samples", "1")
        result = run_eval(tmp_path, *options, "--tasks", "6", "--set", both)
    assert result.exit_code == 0, result.output
    assert "turns allowed: 5 in corridor, 2 in short" in " ".join(result.stdout.split())
    policy = json.loads((tmp_path / "out" / "eval.json").read_text())["policy"]
    assert policy["turn_limits"] == {"corridor": 5, "short": 2}
    page = (tmp_path / "out" / "eval.html").read_text()
    assert "turns allowed: 5 in corridor, 2 in short" in page


def test_a_result_that_cannot_be_printed_is_written(tmp_path):
    file, out = tmp_path / "run.json", tmp_path / "out"
    file.write_text(json.dumps(MANIFEST))
    with open("/dev/full", "w") as full, redirect_stdout(full):
        main(["eval", str(file), "--out", str(out), "--tasks", "2"], standalone_mode=False)
    assert json.loads((out / "eval.json").read_text())["policy"]["n"] == 2
