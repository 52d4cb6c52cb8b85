from agentrl_envs.env import content_id, in_split, split_of


def test_an_id_in_its_split_stays_and_another_is_hashed_until_it_is_there():
    found = content_id("dial-2", {"start": 1})
    other = "heldout" if split_of(found) == "train" else "train"
    assert in_split(found, split_of(found)) == found
    moved = found
    while split_of(moved) != other:
        moved = content_id("dial-2", moved)
    assert in_split(found, other) == moved
    assert moved.startswith("dial-2-")
