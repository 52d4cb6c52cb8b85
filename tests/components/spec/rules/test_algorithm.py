from rule_violations.manifest import mistakes


def test_a_mistake_has_field_reason_and_fix(tmp_path):
    assert mistakes(tmp_path, ("rollout.groupSize=1",)) == [
        "spec.rollout.groupSize: 1 is too small for grpo, whose baseline is the other "
        "episodes of the task; set it to 2 or more"
    ]


def test_a_group_size_of_one_is_valid_without_a_group_baseline(tmp_path):
    assert mistakes(tmp_path, ("rollout.groupSize=1", "algorithm.name=reinforce++")) == []
