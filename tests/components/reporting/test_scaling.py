from agentrl_components.evaluation.summary import SuccessRate
from agentrl_components.reporting.scaling import Scaling, png


def rate(success: float) -> SuccessRate:
    return SuccessRate(success=success, low=success / 2, high=(1 + success) / 2, n=10)


def test_the_figure_is_a_png_with_one_curve_or_one_for_each_environment():
    curve = {2: rate(0.1), 8: rate(0.5)}
    for environments in ({}, {"a": curve, "b": {2: rate(0.0), 8: rate(0.2)}}):
        found = Scaling(
            model="m",
            temperature=1.0,
            samples=1,
            tasks=10,
            success=curve,
            environments=environments,
        )
        assert png(found).startswith(b"\x89PNG")
