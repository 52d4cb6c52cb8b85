"""Which folders take the result of an evaluation."""

import json
import re

import pytest

from agentrl_components.errors import SpecError, StoreError
from agentrl_components.evaluation.episode_log import DESCRIPTION
from agentrl_pipelines.local.evaluation_folder import RESULT, check_folder

SETTINGS = {
    "seed": 0,
    "environments": ["rooms"],
    "evaluation.tasks": 8,
    "evaluation.turnSweep": [2, 5],
    "environments[rooms].options.size": 7,
}


def written(folder, model="tiny", **changed):
    """A folder with a result with `SETTINGS` and these changes."""
    folder.mkdir()
    result = {"model": model, "settings": SETTINGS | changed}
    (folder / RESULT).write_text(json.dumps(result))
    return folder


def test_the_same_evaluation_is_repeated_in_its_folder_and_a_new_folder_is_not_created(tmp_path):
    check_folder(written(tmp_path / "same"), "tiny", SETTINGS)
    check_folder(tmp_path / "new" / "one", "tiny", SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["same"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "hf://org/name"}, "its model is hf://org/name, not tiny"),
        ({"seed": 1}, "its seed is 1, not 0"),
        ({"environments": ["crafting"]}, "its environments is ['crafting'], not ['rooms']"),
        ({"evaluation.tasks": 4}, "its evaluation.tasks is 4, not 8"),
        ({"evaluation.turnSweep": []}, "its evaluation.turnSweep is [], not [2, 5]"),
        (
            {"environments[rooms].options.text": "terse"},
            "its environments[rooms].options.text is terse, not None",
        ),
    ],
)
def test_another_evaluation_is_not_replaced(tmp_path, changed, reason):
    folder = written(tmp_path / "other", **changed)
    with pytest.raises(SpecError, match=re.escape(f"({reason}); name another folder")):
        check_folder(folder, "tiny", SETTINGS)


def test_a_result_without_settings_is_not_replaced(tmp_path):
    (tmp_path / RESULT).write_text('{"model": "tiny"}')  # of an earlier version
    with pytest.raises(SpecError, match="its seed is None, not 0"):
        check_folder(tmp_path, "tiny", SETTINGS)


def test_episodes_of_an_endpoint_are_not_mixed_with_a_result_of_weights(tmp_path):
    (tmp_path / DESCRIPTION).touch()
    check_folder(tmp_path, "walker at http://h/v1", None)
    with pytest.raises(SpecError, match="it has the episodes of an endpoint"):
        check_folder(tmp_path, "tiny", SETTINGS)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"policy": 1}'])
def test_a_result_that_was_not_written_to_its_end_is_replaced(tmp_path, content):
    (tmp_path / RESULT).write_text(content)
    check_folder(tmp_path, "tiny", SETTINGS)


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/out: Not a directory; give a folder that can be"):
        check_folder(tmp_path / "file" / "out", "tiny", SETTINGS)
