import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from heldout_results import heldout_result
from iteration_records import iteration_record
from numpy.testing import assert_allclose

from agentrl_components.reporting import plot
from agentrl_components.reporting.schema import (
    Heldout,
    IntermediateEvaluation,
    MlflowLink,
    PhaseSummary,
    Report,
)

SVG = "{http://www.w3.org/2000/svg}"


def report(steps=(), phases=(), heldout=None, evaluations=()):
    return Report(
        name="babyai",
        status="succeeded",
        message="",
        model="tiny",
        algorithm="grpo",
        warm_start=None,
        environments=("babyai",),
        actions="free",
        seed=0,
        manifest="",
        heldout=heldout or Heldout(),
        phases=phases,
        wall_seconds={},
        alarms=(),
        checkpoints=(),
        mlflow=MlflowLink(uri=None, experiment="agentrl"),
        training=steps,
        evaluations=evaluations,
        episodes=(),
    )


def step(iteration, phase, max_turns, success):
    return iteration_record(
        iteration=iteration,
        phase=phase,
        max_turns=max_turns,
        success=success,
        score=success,
        turns=2.0,
        capped=0.1,
        wellformed=1.0,
        entropy=None,
    )


def phase(number, horizon, iterations):
    return PhaseSummary(
        phase=number,
        horizon=horizon,
        iterations=iterations,
        planned=2,
        success_first=None,
        success_last=None,
        ended="",
    )


FULL = report(
    steps=(step(0, 0, 3, 0.2), step(1, 0, 3, 0.4), step(2, 1, 5, None), step(3, 1, 5, 0.8)),
    phases=(phase(0, 3, 2), phase(1, 5, 2), phase(2, 8, 0)),
    heldout=Heldout(
        random=heldout_result("random", 0.2, 0.17, 0.24),
        before=heldout_result("before", 0.3, 0.26, 0.35),
        after=heldout_result("after", 0.8, 0.75, 0.84),
    ),
    evaluations=(
        IntermediateEvaluation(
            iterations=2, found=heldout_result("iteration-000002", 0.5, 0.45, 0.55)
        ),
    ),
)


def test_smoothing_is_a_centred_mean_that_skips_missing_values():
    smoothed = plot.smooth([1.0, None, 3.0, 5.0], 3)
    assert_allclose(smoothed, [1.0, 2.0, 4.0, 4.0])
    assert np.isnan(plot.smooth([None], 3)).all()
    assert plot.smooth([], 3).shape == (0,)


def test_heldout_points_have_their_intervals_and_iterations():
    axes = plot.draw(FULL).axes[0]
    (container,) = axes.containers
    points, _, (bars,) = container.lines
    assert_allclose(points.get_xydata(), [[0, 0.3], [2, 0.5], [4, 0.8]])
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    assert_allclose(ends, [[0.26, 0.35], [0.45, 0.55], [0.75, 0.84]])


def test_a_score_that_differs_from_success_has_a_line_and_points():
    """Partial rewards: nothing is solved, but scores rise."""
    after = heldout_result("after", 0.0, 0.0, 0.04, score=0.5)
    graded = report(
        steps=tuple(
            iteration_record(iteration=i, phase=0, max_turns=3, success=0.0, score=score)
            for i, score in enumerate((0.2, 0.4))
        ),
        phases=(phase(0, 3, 2),),
        heldout=Heldout(before=heldout_result("before", 0.0, 0.0, 0.04, score=0.1), after=after),
    )
    lines = {line.get_label(): line for line in plot.draw(graded).axes[0].lines}
    assert_allclose(lines["training, mean score"].get_ydata(), [0.3, 0.3])
    assert_allclose(lines["held-out, mean score"].get_xydata(), [[0, 0.1], [2, 0.5]])
    same = {line.get_label() for line in plot.draw(FULL).axes[0].lines}
    assert not same & {"training, mean score", "held-out, mean score"}


def test_an_evaluation_that_lacks_an_environment_has_another_mark_and_no_interval():
    lacking = heldout_result("after", 0.8, 0.75, 0.84, missing=("rooms",))
    heldout = FULL.heldout.model_copy(update={"after": lacking})
    axes = plot.draw(FULL.model_copy(update={"heldout": heldout})).axes[0]
    (container,) = axes.containers
    assert_allclose(container.lines[0].get_xydata(), [[0, 0.3], [2, 0.5]])
    lines = {line.get_label(): line for line in axes.lines}
    assert_allclose(lines["held-out, an environment was down"].get_xydata(), [[4, 0.8]])
    alone = plot.draw(report(heldout=Heldout(after=lacking))).axes[0]
    assert not alone.containers


def test_every_phase_is_labelled_with_its_horizon():
    texts = [text.get_text() for text in plot.draw(FULL).axes[0].texts]
    assert texts[:2] == ["horizon: 3 turns", "horizon: 5 turns"]
    assert "horizon: 8 turns" not in texts
    assert texts[2:] == ["30.0 %", "80.0 %"]


def test_the_figure_is_a_png_of_1500_pixels():
    data = plot.png(plot.draw(FULL))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1500, 990)


def test_the_svg_uses_the_text_colour_of_the_page():
    text = plot.svg(plot.draw(FULL))
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert "currentColor" in text
    assert plot.INK not in text


@pytest.mark.parametrize(
    "few_records",
    [
        report(),
        report(heldout=Heldout(before=heldout_result("before", 0.3, 0.2, 0.4))),
        report(steps=(step(0, 0, 1, 0.0),), phases=(phase(0, 1, 1),)),
    ],
)
def test_a_run_with_few_records_has_a_curve(few_records):
    assert plot.png(plot.draw(few_records))


def test_limits_of_environments_are_shown_as_a_range():
    """One environment has 2 turns in all phases, the others those of the schedule."""
    phases = tuple(
        one.model_copy(update={"turn_limits": {"rooms": 2, "others": one.horizon}})
        for one in FULL.phases
    )
    after = heldout_result("after", 0.8, turn_limits={"rooms": 2, "others": 8})
    top, turns, *_ = plot.draw(
        FULL.model_copy(update={"phases": phases, "heldout": Heldout(after=after)})
    ).axes
    labels = [text.get_text() for text in top.texts]
    assert labels[:2] == ["horizon: 2 to 3 turns", "horizon: 2 to 5 turns"]
    assert "held-out at 2 to 8 turns, 95 % interval" in top.get_legend_handles_labels()[1]
    (stairs,) = turns.patches[len(turns.patches) - 1 :]
    assert stairs.get_data().values.tolist() == [3, 3, 5, 5]


def test_the_limit_of_the_only_environment_replaces_that_of_the_schedule():
    phases = tuple(one.model_copy(update={"turn_limits": {"rooms": 2}}) for one in FULL.phases)
    top, turns, *_ = plot.draw(FULL.model_copy(update={"phases": phases})).axes
    labels = [text.get_text() for text in top.texts]
    assert labels[:2] == ["horizon: 2 turns", "horizon: 2 turns"]
    (stairs,) = turns.patches[len(turns.patches) - 1 :]
    assert stairs.get_data().values.tolist() == [2, 2, 2, 2]
