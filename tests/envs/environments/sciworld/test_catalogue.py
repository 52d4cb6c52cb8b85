import pytest

from agentrl_envs.environments.sciworld.catalogue import (
    BY_NAME,
    GAMES,
    ITEMS,
    item_of,
    of_item,
    variations,
)
from agentrl_envs.environments.sciworld.jvm_pool import shared_pool


def test_agentgym_plays_23_tasks_with_4639_items():
    assert (len(GAMES), ITEMS) == (23, 4639)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("boil", 0, 29),
        ("use-thermometer", 120, 659),
        ("test-conductivity", 1436, 2335),
        ("find-living-thing", 2936, 3235),
        ("find-animal", 3836, 4135),
        ("lifespan-longest-lived", 4240, 4364),
        ("identify-life-stages-2", 4629, 4638),
    ],
)
def test_items_are_numbered_as_agentgyms_data_set_numbers_them(name, first, last):
    assert (item_of(name, 0), item_of(name, BY_NAME[name].variations - 1)) == (first, last)
    assert (of_item(first)[0], of_item(last)[0]) == (name, name)


def test_every_item_is_one_variation_and_back():
    assert all(item_of(*of_item(item)) == item for item in range(ITEMS))


def test_the_development_variations_are_in_no_split():
    boil = BY_NAME["boil"]
    assert list(variations(boil, "train")) == list(range(14))
    assert list(variations(boil, "heldout")) == list(range(21, 30))


@pytest.mark.usefixtures("java")
def test_splits_are_those_of_the_package():
    world = shared_pool(jvms=1, worlds=64).lease()
    with world.turn() as simulator:
        for game in GAMES:
            simulator.load(game.name, 0, "", False)
            assert list(simulator.getVariationsTrain()) == list(variations(game, "train"))
            assert list(simulator.getVariationsTest()) == list(variations(game, "heldout"))
            assert simulator.getTaskMaxVariations(game.name) == game.variations
    world.release()
