from collections import Counter

from agentrl_envs.environments.textcraft.recipes import Recipe
from agentrl_envs.environments.textcraft.recipes_minecraft import minecraft_book


def test_goals_have_the_documented_depths():
    assert Counter(minecraft_book().depths.values()) == {1: 147, 2: 275, 3: 114, 4: 11}


def test_generic_ingredients_are_restored():
    book = minecraft_book()
    assert book.by_item["chest"] == (Recipe("chest", 1, (("planks", 8),)),)
    assert book.by_item["barrel"] == (Recipe("barrel", 1, (("planks", 6), ("wooden_slabs", 2))),)
    assert book.by_item["painting"] == (Recipe("painting", 1, (("stick", 8), ("wool", 1))),)
    assert book.by_item["oak_planks"] == (Recipe("oak_planks", 4, (("oak_logs", 1),)),)
    assert book.is_raw("oak_logs")
    assert not book.is_raw("planks")


def test_cycle_is_broken_by_dropping_the_larger_recipe():
    book = minecraft_book()
    assert book.by_item["iron_nugget"] == (Recipe("iron_nugget", 9, (("iron_ingot", 1),)),)
    assert book.is_raw("iron_ingot")


def test_recipes_that_unpack_a_block_are_dropped():
    for recipe in minecraft_book().recipes:
        assert not (len(recipe.needs) == 1 and recipe.needs[0][0].endswith("_block"))
    assert minecraft_book().is_raw("diamond")


def test_no_item_is_an_ingredient_of_itself():
    book = minecraft_book()
    for item in book.by_item:
        for recipe in book.by_item[item]:
            for need, _ in recipe.needs:
                assert item not in {r.makes for r in book.tree(need)}


def test_tree_has_every_recipe_that_can_contribute():
    made = {recipe.makes for recipe in minecraft_book().tree("oak_sign")}
    woods = ("acacia", "birch", "crimson", "dark_oak", "jungle", "oak", "spruce", "warped")
    assert made == {"oak_sign", "stick", *(f"{wood}_planks" for wood in woods)}
