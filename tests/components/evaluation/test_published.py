"""The paper's tables: what can be checked by arithmetic."""

import pytest

from agentrl_components.evaluation.published import MODELS, PUBLISHED, row_name


def test_there_are_26_rows_for_the_27_tasks_and_the_papers_numbers_of_test_tasks():
    assert sum(len(each.counts) for each in PUBLISHED.values()) == 26
    counts = {name: sum(each.counts.values()) for name, each in PUBLISHED.items()}
    assert counts == {
        "webarena": 50,
        "search": 400,
        "textcraft": 100,
        "babyai": 90,
        "sciworld": 200,
    }


@pytest.mark.parametrize("family", ["textcraft", "babyai", "search"])
def test_the_categories_add_up_to_the_overall_number_of_the_trained_models(family):
    each = PUBLISHED[family]
    total = sum(each.counts.values())
    for position, model in enumerate(MODELS[1:], start=1):
        solved = sum(
            each.counts[name] * row[position] / 100 for name, row in each.categories.items()
        )
        assert 100 * solved / total == pytest.approx(each.overall[model], abs=0.6)


@pytest.mark.parametrize(
    ("category", "row"),
    [
        ("babyai/GoTo", "GoTo"),
        ("textcraft/depth 3", "Depth 3"),
        ("nq/single", "NQ"),
        ("testcond/boil", "Test-Cond"),
        ("twowiki/bridge", "2Wiki"),
        ("corridor/left", "corridor/left"),
    ],
)
def test_a_category_or_an_environment_stands_for_a_row(category, row):
    assert row_name(category) == row
