"""Which folders take the result of an evaluation."""

import json

import pytest

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.evaluation.episode_log import DESCRIPTION
from agentrl_pipelines.local.evaluation_folder import RESULT, check_folder

TINY = {"model": "tiny", "seed": 0, "environments": ["rooms"], "actions": "free", "temperature": 1}


def written(folder, **changed):
    """A folder with the result of `TINY` with these changes."""
    fields = TINY | changed
    result = fields | {"policy": {"temperature": fields["temperature"]}}
    folder.mkdir()
    (folder / RESULT).write_text(json.dumps(result))
    return folder


def test_the_same_evaluation_is_repeated_in_its_folder_and_a_new_folder_is_not_created(tmp_path):
    check_folder(written(tmp_path / "same"), TINY, endpoint=False)
    check_folder(tmp_path / "new" / "one", TINY, endpoint=False)
    assert [path.name for path in tmp_path.iterdir()] == ["same"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "hf://org/name"),
        ("seed", 1),
        ("environments", ["crafting"]),
        ("actions", "admissible"),
        ("temperature", 0.0),
    ],
)
def test_another_evaluation_is_not_replaced(tmp_path, field, value):
    folder = written(tmp_path / "other", **{field: value})
    with pytest.raises(SpecError, match=rf"its {field} is .*, not .*; name another folder"):
        check_folder(folder, TINY, endpoint=False)


def test_episodes_of_an_endpoint_are_not_mixed_with_a_result_of_weights(tmp_path):
    (tmp_path / DESCRIPTION).touch()
    check_folder(tmp_path, {"model": "walker at http://h/v1"}, endpoint=True)
    with pytest.raises(SpecError, match="it has the episodes of an endpoint"):
        check_folder(tmp_path, TINY, endpoint=False)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"policy": 1}'])
def test_a_result_that_was_not_written_to_its_end_is_replaced(tmp_path, content):
    (tmp_path / RESULT).write_text(content)
    check_folder(tmp_path, TINY, endpoint=False)


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/out: Not a directory; give a folder that can be"):
        check_folder(tmp_path / "file" / "out", TINY, endpoint=False)
