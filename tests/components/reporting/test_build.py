import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from heldout_results import categories, heldout_result

from agentrl_components.errors import StoreError
from agentrl_components.reporting.build import Report, build, write
from agentrl_components.reporting.description import (
    model_description,
    model_metadata,
    run_description,
)
from agentrl_components.reporting.html import duration
from agentrl_components.reporting.schema import EpisodePair
from agentrl_components.reporting.transcript import replay
from agentrl_components.spec import parse
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.trajectory.codec import encode
from agentrl_components.trajectory.record import Ending, Trajectory, Turn

RUN = parse(
    {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "babyai"},
        "spec": {
            "environments": [{"name": "babyai", "builtin": "babyai"}],
            "horizon": {
                "window": 2,
                "phases": [
                    {"maxTurns": 3, "iterations": 2},
                    {"maxTurns": 5, "iterations": 2},
                    {"maxTurns": 8, "iterations": 4},
                ],
            },
            "warmStart": {"algorithm": "hindsight"},
        },
    }
)


def episode(task, action, success):
    return Trajectory(
        environment="babyai",
        task=task,
        category="OpenDoor",
        group=0,
        sample=0,
        iteration=-1,
        ids=np.arange(3, dtype=np.int32),
        mask=np.array([False, True, True]),
        logprobs=np.zeros(3, np.float32),
        allowed=None,
        turns=(
            Turn(
                start=1,
                end=3,
                reward=float(success),
                wellformed=True,
                action=action,
                observation="a door",
                version=0,
            ),
        ),
        ending=Ending.TERMINATED,
        score=float(success),
        raw_score=float(success),
        success=success,
        max_turns=8,
    )


def put_evaluation(store, result):
    store.put(keys.evaluation(result.name), result.model_dump_json().encode())


def alarm(signal, number=0, action="record"):
    return {
        "alarm": number,
        "signal": signal,
        "action": action,
        "value": 0.1,
        "bound": 0.2,
        "message": f"{signal} fired",
    }


def put_iteration(
    store, iteration, phase, max_turns, success, action="continue", reason="", alarms=()
):
    record = {
        "iteration": iteration,
        "phase": phase,
        "max_turns": max_turns,
        "version": iteration + 1,
        "metrics": {"train/success": success, "train/turns": 2.0, "update/loss": 0.1},
        "checkpointed": iteration % 2 == 1,
        "decision": {
            "action": action,
            "phase": phase + (action == "advance"),
            "max_turns": max_turns,
            "reason": reason,
            "alarms": [alarm(one) if isinstance(one, str) else one for one in alarms],
        },
    }
    store.put(keys.iteration(iteration), json.dumps(record).encode())


@pytest.fixture
def store():
    """A stopped run: four iterations, two checkpoints and evaluations."""
    store = MemoryStore()
    put_evaluation(
        store, heldout_result("random", 0.2, 0.17, 0.24, categories=categories(OpenDoor=0.2))
    )
    put_evaluation(
        store, heldout_result("before", 0.37, 0.32, 0.42, categories=categories(OpenDoor=0.4))
    )
    put_evaluation(
        store,
        heldout_result("iteration-000002", 0.6, 0.55, 0.65, categories=categories(OpenDoor=0.6)),
    )
    put_evaluation(
        store, heldout_result("after", 0.5, 0.45, 0.55, categories=categories(OpenDoor=0.5))
    )
    put_iteration(store, 0, 0, 3, 0.2)
    put_iteration(store, 1, 0, 3, 0.4, "advance", "the horizon goes from 3 to 5 turns")
    put_iteration(store, 2, 1, 5, 0.6, alarms=["entropy_below"])
    put_iteration(
        store, 3, 1, 5, 0.5, "stop", "reward fell", alarms=["entropy_below", "reward_drop"]
    )
    for number in (2, 4):
        store.put(keys.checkpoint(number, keys.MANIFEST), b"{}")
    state = {"status": "stopped", "message": "reward fell", "wall_seconds": {"train": 83.4}}
    store.put(keys.STATE, json.dumps(state).encode())
    store.put(keys.episodes("before"), encode([episode("aa", "drop <b>key</b>", False)]))
    store.put(keys.episodes("after"), encode([episode("aa", "toggle", True)]))
    return store


class ConcurrentlyResumedStore(MemoryStore):
    """Deletes iterations 2 and 3 after they were listed, as a concurrent run can do."""

    def list(self, prefix):
        present = list(super().list(prefix))
        if prefix == keys.ITERATIONS:
            del self.objects[keys.iteration(2)], self.objects[keys.iteration(3)]
        return iter(present)


def test_iterations_that_a_concurrent_run_deletes_are_skipped(store):
    resumed = ConcurrentlyResumedStore()
    resumed.objects = dict(store.objects)
    assert [step.iteration for step in build(resumed, RUN).training] == [0, 1]


def test_heldout_success_is_read_from_the_evaluations(store):
    heldout = build(store, RUN).heldout
    assert (heldout.random.success, heldout.before.low, heldout.after.high) == (0.2, 0.32, 0.55)
    assert heldout.after.categories["babyai/OpenDoor"].success == 0.5


def test_report_json_has_the_documented_fields(store, tmp_path):
    write(build(store, RUN, tmp_path), tmp_path)
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert set(report["heldout"]) == {"random", "before", "after"}
    assert {"success", "low", "high", "n", "wellformed", "categories"} <= set(
        report["heldout"]["after"]
    )
    assert [(p["horizon"], p["iterations"]) for p in report["phases"]] == [(3, 2), (5, 2), (8, 0)]
    assert report["wall_seconds"] == {"train": 83.4}
    assert Report.model_validate(report) == build(store, RUN, tmp_path)


def test_phases_have_first_and_last_success_and_the_reason_of_their_end(store):
    first, second, third = build(store, RUN).phases
    assert (first.success_first, first.success_last) == pytest.approx((0.3, 0.3))
    assert first.ended == "the horizon goes from 3 to 5 turns"
    assert second.ended == "reward fell"
    assert (third.success_first, third.ended) == (None, "not started")


def test_first_and_last_success_of_a_phase_are_means_over_five_iterations():
    """Of 0.1 to 0.7: the mean of 0.1 to 0.5, and that of 0.3 to 0.7."""
    store = MemoryStore()
    for iteration in range(7):
        put_iteration(store, iteration, 0, 3, (iteration + 1) / 10)
    first, *_ = build(store, RUN).phases
    assert (first.success_first, first.success_last) == pytest.approx((0.3, 0.5))


def test_iterations_without_a_measured_success_do_not_count_in_a_phase():
    store = MemoryStore()
    for iteration, success in enumerate((None, 0.4, 0.6, None)):
        put_iteration(store, iteration, 0, 3, success)
    first, *_ = build(store, RUN).phases
    assert (first.iterations, first.success_first, first.success_last) == (4, 0.5, 0.5)


def test_environments_have_first_and_last_success_their_last_limit_and_the_iterations_down():
    """As of a phase, of 0.1 to 0.7; rooms are down in the fourth iteration, and not measured by the
    first, which is of an earlier version."""
    environments = [{"name": name, "builtin": "babyai"} for name in ("rooms", "halls")]
    manifest = RUN.model_dump(mode="json", by_alias=True)
    manifest["spec"]["environments"] = environments
    store = MemoryStore()
    of_rooms = {"success": None, "max_turns": None, "episodes": None}
    for iteration in range(9):
        put_iteration(store, iteration, 0, 3, 0.5)
        down, played = iteration == 3, iteration - 1 - (iteration > 3)
        if iteration:
            of_rooms = {
                "success": None if down else (played + 1) / 10,
                "max_turns": 3.0 if iteration < 5 else 8.0,
                "episodes": 0.0 if down else 4.0,
            }
        record = json.loads(store.get(keys.iteration(iteration)))
        found = {f"train/rooms/{name}": v for name, v in of_rooms.items() if v is not None}
        record["metrics"] |= found
        store.replace(keys.iteration(iteration), json.dumps(record).encode())
    rooms, halls = build(store, parse(manifest)).by_environment
    assert (rooms.success_first, rooms.success_last) == pytest.approx((0.3, 0.5))
    assert (rooms.name, rooms.max_turns, rooms.down) == ("rooms", 8, 1)
    assert (halls.success_first, halls.max_turns, halls.down) == (None, None, 0)


def test_consecutive_alarms_are_merged(store):
    alarms = build(store, RUN).alarms
    assert [(a.signal, a.first, a.last) for a in alarms] == [
        ("entropy_below", 3, 4),
        ("reward_drop", 4, 4),
    ]


def test_an_alarm_that_fires_again_after_a_pause_is_listed_again():
    store = MemoryStore()
    for iteration, alarms in enumerate((["entropy_below"], [], ["entropy_below"])):
        put_iteration(store, iteration, 0, 3, 0.5, alarms=alarms)
    assert [(a.first, a.last) for a in build(store, RUN).alarms] == [(1, 1), (3, 3)]


@pytest.mark.parametrize("second", ["record", "hold"])
def test_two_alarms_on_one_signal_are_merged_apart(second):
    """The first fires after iterations 1 to 5, the second after 1 to 3 and 5."""
    store = MemoryStore()
    for iteration in range(5):
        both = [alarm("entropy_below"), alarm("entropy_below", 1, second)]
        put_iteration(store, iteration, 0, 3, 0.5, alarms=both[:1] if iteration == 3 else both)
    found = [(a.action, a.first, a.last) for a in build(store, RUN).alarms]
    assert found == [("record", 1, 5), (second, 1, 3), (second, 5, 5)]


def test_the_last_alarm_of_a_stopped_run_is_that_of_its_completed_iterations(store):
    report = build(store, RUN)
    assert report.alarms[-1].last == len(report.training) == report.checkpoints[-1].iteration


def test_the_best_checkpoint_is_the_one_with_the_best_held_out_success(store):
    first, second = build(store, RUN).checkpoints
    assert (first.iteration, first.best, first.last) == (2, True, False)
    assert (second.iteration, second.best, second.last) == (4, False, True)
    assert first.url == "memory:/checkpoints/000002/"


@pytest.mark.parametrize(
    ("action", "name", "after"),
    [("stop", "after iteration 4", 0.9), ("hold", "after training", None)],
)
def test_of_a_run_that_an_alarm_stopped_the_evaluation_after_its_last_iteration_is_that_after(
    store, action, name, after
):
    store.delete(keys.evaluation("after"))
    put_evaluation(store, heldout_result("iteration-000004", 0.9, 0.8, 0.95))
    store.put(keys.episodes("iteration-000004"), encode([episode("bb", "toggle", True)]))
    store.delete(keys.iteration(3))
    put_iteration(store, 3, 1, 5, 0.5, action)
    report = build(store, RUN)
    found = report.heldout.after
    assert (report.after_name, found.success if found else None) == (name, after)
    assert ("bb" in {pair.task for pair in report.episodes}) == (action == "stop")


def test_the_headline_mentions_overlapping_intervals(store):
    assert build(store, RUN).headline == "Held-out success rose from 37.0 % to 50.0 %."
    store.replace(
        keys.evaluation("after"),
        heldout_result("after", 0.4, 0.35, 0.45).model_dump_json().encode(),
    )
    assert build(store, RUN).headline == (
        "Held-out success went from 37.0 % to 40.0 %; the 95 % intervals overlap."
    )


def test_evaluations_of_different_environments_are_not_compared(store, tmp_path):
    lacking = heldout_result("after", 0.9, 0.85, 0.93, missing=("rooms", "crafting"))
    store.replace(keys.evaluation("after"), lacking.model_dump_json().encode())
    report = build(store, RUN)
    assert report.headline == (
        "Held-out success is 37.0 % before, and 90.0 % after training, without rooms and crafting, "
        "which were down: the tasks are not the same."
    )
    assert next(one.iteration for one in report.checkpoints if one.best) == 2
    write(report, tmp_path)
    assert "without rooms and crafting, which were down" in (tmp_path / "report.html").read_text()
    assert "| after training, without rooms and crafting" in run_description(report)
    store.replace(
        keys.evaluation("before"),
        lacking.model_copy(update={"name": "before", "success": 0.2, "high": 0.3})
        .model_dump_json()
        .encode(),
    )
    assert build(store, RUN).headline == (
        "Held-out success rose from 20.0 % to 90.0 %, without rooms and crafting, which were down."
    )


@pytest.mark.parametrize("name", ["random", "before", "after"])
def test_the_page_has_the_episodes_that_any_evaluation_lost(store, tmp_path, name):
    write(build(store, RUN), tmp_path)
    assert "episodes lost" not in (tmp_path / "report.html").read_text()
    store.replace(
        keys.evaluation(name), heldout_result(name, 0.5, lost=7).model_dump_json().encode()
    )
    write(build(store, RUN), tmp_path)
    page = (tmp_path / "report.html").read_text()
    row = page[page.index("episodes lost to environment failures, not counted") :]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row[: row.index("</tr>")])
    assert cells == ["7" if name == one else "0" for one in ("random", "before", "after")]


def test_the_pages_mean_score_is_in_percent_like_the_success(store, tmp_path):
    graded = heldout_result("after", 0.5, score=0.625)
    store.replace(keys.evaluation("after"), graded.model_dump_json().encode())
    write(build(store, RUN), tmp_path)
    page = (tmp_path / "report.html").read_text()
    row = page[page.index('<th scope="row">mean score</th>') :]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row[: row.index("</tr>")])
    assert cells == ["20.0 %", "37.0 %", "62.5 %"]


def test_the_page_has_the_manifest_and_the_command_to_reproduce_the_run(store, tmp_path):
    write(build(store, RUN), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "agentrl run run.yaml" in page
    report = build(store, RUN)
    assert parse(yaml.safe_load(report.manifest)) == RUN
    assert "maxTurns: 8" in page


def test_the_first_example_is_a_task_solved_only_after_training(store):
    def pair(name, before, after, turns=1):
        def replayed(success, turns):
            if success is None:
                return None
            one = replay(episode(name, "go", success))
            return one.model_copy(update={"moves": one.moves * turns})

        return EpisodePair(
            task=name, category="c", before=replayed(before, 1), after=replayed(after, turns)
        )

    pairs = (
        pair("solved before", True, True, 9),
        pair("unlearned", True, False, 9),
        pair("not played after", False, None),
        pair("learned", False, True, 2),
        pair("learned, longer", False, True, 5),
    )
    report = build(store, RUN).model_copy(update={"episodes": pairs})
    assert [one.task for one in report.examples] == [
        *("learned, longer", "learned", "solved before", "unlearned", "not played after"),
    ]


def test_the_description_has_goal_result_checkpoints_and_manifest(store):
    report = build(store, RUN)
    text = run_description(report)
    assert text.startswith(f"**{report.headline}**")
    assert "`tiny` trained in babyai by grpo after hindsight; horizon 3, 5, 8 turns" in text
    assert "| random policy | 20.0 % |" in text
    assert f"- best checkpoint: `{next(c.url for c in report.checkpoints if c.best)}`" in text
    assert "maxTurns: 8" in text
    free = report.model_copy(update={"actions": "free"})
    masked = report.model_copy(update={"actions": "admissible"})
    metadata = model_metadata(RUN.spec)
    assert "a small model then writes noise" in model_description(masked, metadata)
    assert "noise" not in model_description(free, metadata)
    assert RUN.spec.model.template == "auto"
    assert "template: `plain`" in model_description(free, metadata)


def test_a_manifest_too_long_for_a_description_is_left_out_whole(store):
    report = build(store, RUN)
    empty = len(run_description(report.model_copy(update={"manifest": ""})))
    fits = report.model_copy(update={"manifest": "x" * (8000 - empty)})
    assert len(run_description(fits)) == 8000
    longer = run_description(report.model_copy(update={"manifest": "x" * (8001 - empty)}))
    assert longer.startswith(f"**{report.headline}**")
    assert "xx" not in longer
    assert longer.endswith(
        "Reproduce it with `agentrl run run.yaml` and the manifest in `report.html`."
    )


def test_the_models_metadata_has_what_is_needed_to_let_it_act():
    acting = model_metadata(RUN.spec)["agentrl"]
    assert (acting["template"], acting["max_turns"]) == ("plain", 8)
    assert acting["thinking"] is False
    assert acting["environments"] == [{"name": "babyai", "builtin": "babyai", "options": {}}]
    assert json.loads(json.dumps(acting)) == acting


def test_episodes_are_paired_by_task(store):
    (pair,) = build(store, RUN).episodes
    assert (pair.before.success, pair.after.success) == (False, True)
    assert (pair.task, pair.category) == ("aa", "babyai/OpenDoor")


def test_the_mlflow_uri_defaults_to_the_database_in_the_folder_if_it_exists(store, tmp_path):
    assert build(store, RUN).mlflow.uri is None
    assert build(store, RUN, tmp_path).mlflow.uri is None  # there is no database
    (tmp_path / "mlflow.db").touch()
    assert build(store, RUN, tmp_path).mlflow.uri == f"sqlite:///{tmp_path}/mlflow.db"


def test_a_run_that_has_just_started_has_a_report(tmp_path):
    report = build(MemoryStore(), RUN, tmp_path)
    write(report, tmp_path)
    assert report.headline == "Nothing has been evaluated yet."
    assert report.heldout.random is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.png",
        "report.html",
        "report.json",
    ]


class Page(HTMLParser):
    """Collects the tags and URLs of a page, and checks that its tags are balanced."""

    VOID = frozenset({"meta", "path", "use", "rect", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.tags = [], [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_self_contained_and_escapes_texts(store, tmp_path):
    write(build(store, RUN, tmp_path), tmp_path)
    text = (tmp_path / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "http:" not in text.replace("http://www.w3.org", "")
    assert all(value.startswith("#") for value in page.loads)
    assert "drop &lt;b&gt;key&lt;/b&gt;" in text
    assert "<b>key" not in text


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_report_with_numbers_that_are_not_finite_is_valid_json_and_is_read_again(
    text, store, tmp_path
):
    put_iteration(store, 4, 2, 8, text, alarms=["grad_norm_above"])
    stored = store.get(keys.iteration(4)).replace(b'"value": 0.1', b'"value": "%s"' % text.encode())
    store.replace(keys.iteration(4), stored)
    report = build(store, RUN)
    write(report, tmp_path)
    written = (tmp_path / "report.json").read_bytes()
    training = json.loads(written, parse_constant=pytest.fail)["training"]
    assert training[4]["metrics"]["train/success"] == text
    assert training[4]["decision"]["alarms"][0]["value"] == text
    assert repr(Report.model_validate_json(written)) == repr(report)


@pytest.mark.parametrize(
    "key", [keys.evaluation("before"), keys.iteration(1), keys.STATE, keys.TRACKER]
)
def test_a_damaged_record_is_named(store, key):
    store.replace(key, b'{"half": ')
    with pytest.raises(StoreError, match=key):
        build(store, RUN)


def test_durations_are_formatted_in_fitting_units():
    assert [duration(s) for s in (8.04, 83.4, 3725)] == ["8.0 s", "1 min 23 s", "1 h 02 min"]


def test_the_report_has_the_turn_limits_of_environments(tmp_path):
    rooms = {"name": "rooms", "builtin": "babyai"}
    crafting = {"name": "crafting", "builtin": "textcraft", "maxTurns": [4, 16]}
    manifest = RUN.model_dump(mode="json", by_alias=True)
    manifest["spec"]["environments"] = [rooms, crafting]
    run = parse(manifest)
    store = MemoryStore()
    limits = {"rooms": 8, "crafting": 16}
    put_evaluation(store, heldout_result("after", 0.5, max_turns=16, turn_limits=limits))
    report = build(store, run, tmp_path)
    assert [one.turn_limits for one in report.phases] == [
        {"rooms": 3, "crafting": 4},
        {"rooms": 5, "crafting": 16},
        {"rooms": 8, "crafting": 16},
    ]
    assert "horizon 3 to 4, 5 to 16, 8 to 16 turns" in run_description(report)
    write(report, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "of 8 in rooms, 16 in crafting" in page
    assert "5 to 16 turns" in page
    acting = model_metadata(run.spec)["agentrl"]["environments"]
    assert [one.get("max_turns") for one in acting] == [None, 16]
