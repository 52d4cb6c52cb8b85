import io
import sys
from pathlib import Path

import pytest
from heldout_results import categories, heldout_result
from rich.console import Console

from agentrl_components.reporting.schema import (
    CheckpointSummary,
    EpisodePair,
    Heldout,
    MlflowLink,
    Report,
)
from agentrl_components.reporting.transcript import Move, Replay
from agentrl_components.trajectory.record import Ending
from agentrl_pipelines.cli.run_summary import example_pair, mlflow_command, short_path, show


def replayed(success, *actions):
    return Replay(
        environment="babyai",
        category="UnlockPickup",
        task="aa",
        success=success,
        score=float(success),
        ending=Ending.TERMINATED if success else Ending.TRUNCATED,
        max_turns=len(actions),
        note="",
        moves=tuple(
            Move(observation="a [red] door", action=action, reward=0.0, wellformed=True)
            for action in actions
        ),
    )


def pair(before, after):
    return EpisodePair(task="aa", category="babyai/UnlockPickup", before=before, after=after)


FAILED, SOLVED = replayed(False, "wander", "wander"), replayed(True, "go to door", "open door")


def report(**changed):
    result = Report(
        name="babyai",
        status="succeeded",
        message="",
        model="tiny",
        algorithm="grpo",
        warm_start="hindsight",
        environments=("babyai",),
        actions="admissible",
        seed=0,
        manifest="",
        heldout=Heldout(
            random=heldout_result(
                "random", 0.202, 0.166, 0.245, categories=categories(UnlockPickup=0.0)
            ),
            before=heldout_result(
                "before", 0.368, 0.322, 0.416, categories=categories(UnlockPickup=0.025)
            ),
            after=heldout_result(
                "after", 0.822, 0.782, 0.857, categories=categories(UnlockPickup=0.9)
            ),
        ),
        phases=(),
        wall_seconds={},
        alarms=(),
        checkpoints=(
            CheckpointSummary(iteration=0, key="", url="file:///r/0", best=False, last=False),
            CheckpointSummary(iteration=80, key="", url="file:///r/80", best=True, last=False),
            CheckpointSummary(iteration=120, key="", url="file:///r/120", best=False, last=True),
        ),
        mlflow=MlflowLink(uri="sqlite:////r/mlflow.db", experiment="agentrl"),
        training=(),
        evaluations=(),
        episodes=(pair(FAILED, SOLVED),),
    )
    return result.model_copy(update=changed)


def printed(result, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None, _environ={})
    show(result, Path("runs/babyai"), console)
    return console.file.getvalue()


def test_the_table_has_random_before_and_after_with_intervals():
    text = printed(report())
    (line,) = [line for line in text.splitlines() if line.strip().startswith("all ")]
    assert line.split() == [
        *("all", "20.2", "[16.6,", "24.5]", "36.8", "[32.2,", "41.6]"),
        *("82.2", "[78.2,", "85.7]"),
    ]
    (line,) = [line for line in text.splitlines() if "UnlockPickup  " in line]
    assert line.split()[:4] == ["UnlockPickup", "0.0", "[0.0,", "100.0]"]
    assert "Held-out success rose from 36.8 % to 82.2 %." in text
    assert "% of 400 held-out tasks, 8 turns allowed, 95 % intervals" in text


@pytest.mark.parametrize("width", [50, 60, 70, 76])
def test_no_name_and_no_digit_is_lost_in_a_narrow_terminal(width):
    lines = printed(report(), width).splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("Example task"))]
    text = "".join("".join(line.split()) for line in table)
    assert "…" not in text
    if width > 50:
        rows = [line.split()[0] for line in table if line.strip()]
        assert {"UnlockPickup", "all", "well-formed"} <= set(rows)
    else:  # a long name is continued in the next line
        assert ("UnlockPick" in text, "up" in text) == (True, True)
    for number in ("0.0", "[0.0,", "100.0]", "20.2", "[16.6,", "24.5]", "82.2", "85.7]"):
        assert number in text


def test_the_mean_score_is_in_the_table_where_it_differs_from_success():
    assert "mean score" not in printed(report())
    before = heldout_result("before", 0.0, 0.0, 0.04, score=0.1)
    after = heldout_result("after", 0.0, 0.0, 0.04, score=0.5)
    lines = printed(report(heldout=Heldout(before=before, after=after))).splitlines()
    (line,) = [line for line in lines if "mean score" in line]
    assert line.split() == ["mean", "score", "–", "10.0", "50.0"]


def test_environments_that_were_down_are_named():
    after = heldout_result("after", 0.8, missing=("rooms",))
    text = " ".join(printed(report(heldout=Heldout(after=after))).split())
    assert "Held-out success is 80.0 % after training, without rooms, which was down." in text
    assert "% of 400 held-out tasks, without rooms, which was down, 8 turns allowed" in text


def test_a_missing_evaluation_is_a_dash():
    heldout = Heldout(
        before=heldout_result(
            "before", 0.368, 0.322, 0.416, categories=categories(UnlockPickup=0.025)
        )
    )
    line = next(
        line
        for line in printed(report(heldout=heldout)).splitlines()
        if line.strip().startswith("all ")
    )
    assert line.split() == ["all", "–", "36.8", "[32.2,", "41.6]", "–"]


def test_episodes_that_filled_the_context_are_counted():
    assert "filled the context" not in printed(report())
    after = heldout_result(
        "after", 0.0, 0.0, 0.1, categories=categories(UnlockPickup=0.0)
    ).model_copy(update={"out_of_tokens": 7})
    text = printed(report(heldout=Heldout(after=after)))
    assert "filled the context: 7 of the evaluation after." in " ".join(text.split())
    assert "Raise spec.model.context" in text


def test_lost_episodes_are_counted_of_each_evaluation():
    assert "lost" not in printed(report())
    heldout = Heldout(
        random=heldout_result("random", 0.0, lost=2),
        before=heldout_result("before", 0.0, lost=11),
        after=heldout_result("after", 0.8),
    )
    assert (
        "Episodes lost to environment failures, which are not counted: 2 of the evaluation random, "
        "11 of the evaluation before."
    ) in " ".join(printed(report(heldout=heldout)).split())


def test_one_example_is_shown_before_and_after():
    text = printed(report())
    assert "  1  a [red] door\n  →  wander\n" in text
    assert text.index("not solved in 2 turns") < text.index("solved in 2 turns", text.index("open"))


def test_the_example_is_a_task_solved_only_after_training():
    learned = pair(FAILED, SOLVED)
    assert example_pair(report(episodes=(pair(SOLVED, SOLVED), learned))) == learned
    assert example_pair(report(episodes=(pair(SOLVED, SOLVED),))) == pair(SOLVED, SOLVED)
    assert example_pair(report(episodes=(pair(FAILED, None),))) == pair(FAILED, None)
    assert example_pair(report(episodes=())) is None


def test_the_summary_names_curve_report_checkpoints_and_mlflow():
    text = printed(report(), width=200)
    assert "runs/babyai/curve.png" in text
    assert "runs/babyai/report.html" in text
    assert "best checkpoint    file:///r/80" in text
    assert "last checkpoint    file:///r/120" in text
    assert "file:///r/0" not in text
    assert "mlflow ui --backend-store-uri sqlite:////r/mlflow.db" in text


def test_an_existing_mlflow_database_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unknown = report(mlflow=MlflowLink(uri=None, experiment="agentrl"))
    assert "mlflow" not in printed(unknown, width=200)
    database = tmp_path / "runs" / "babyai" / "mlflow.db"
    database.parent.mkdir(parents=True)
    database.touch()  # created after the report was built
    assert f"mlflow ui --backend-store-uri sqlite:///{database}" in printed(unknown, width=400)


def test_the_registered_model_is_named_with_the_address_of_its_registry():
    link = MlflowLink(uri="sqlite:////r/mlflow.db", experiment="agentrl", registered="walker")
    shown = printed(report(mlflow=link), width=200)
    address = "MLFLOW_TRACKING_URI=sqlite:////r/mlflow.db"
    assert f"registered model   models:/walker/VERSION, with {address}" in shown
    assert "registered model" not in printed(report(), width=200)


def test_an_mlflow_server_is_named_by_its_url():
    served = report(mlflow=MlflowLink(uri="http://mlflow:5000", experiment="agentrl"))
    assert "metrics, episodes  http://mlflow:5000" in printed(served, width=200)


def test_only_paths_are_wider_than_80_columns():
    text, locations = printed(report()).split("learning curve")
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert max(len(line.rstrip()) for line in locations.splitlines()[:-1]) <= 80


def test_paths_and_commands_are_not_broken_into_lines_so_that_they_can_be_copied():
    lines = printed(report(), width=40).splitlines()
    (command,) = [line for line in lines if line.startswith("metrics, episodes")]
    assert command.endswith("mlflow ui --backend-store-uri sqlite:////r/mlflow.db")
    assert "report             runs/babyai/report.html" in lines


def test_the_mlflow_command_is_from_this_python_environment():
    beside = Path(sys.executable).parent / "mlflow"
    command = mlflow_command("sqlite:////a b/mlflow.db")
    assert command.endswith("mlflow ui --backend-store-uri 'sqlite:////a b/mlflow.db'")
    if beside.exists():
        assert command.startswith(short_path(beside))


def test_a_path_below_the_current_folder_is_relative():
    assert short_path(Path.cwd() / ".venv" / "bin" / "mlflow") == ".venv/bin/mlflow"
    assert short_path(Path("/elsewhere/mlflow")) == "/elsewhere/mlflow"


def test_the_turn_limit_of_each_environment_is_named_where_they_differ():
    after = heldout_result("after", 0.8, turn_limits={"rooms": 3, "crafting": 16})
    text = " ".join(printed(report(heldout=Heldout(after=after)), width=200).split())
    assert "% of 400 held-out tasks, turns allowed: 3 in rooms, 16 in crafting, 95 %" in text
