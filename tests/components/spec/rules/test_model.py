from rule_violations.manifest import mistakes


def test_a_context_that_exceeds_the_replies_of_the_longest_phase_is_valid(tmp_path):
    assert mistakes(tmp_path, ("model.context=513", "rollout.maxTokensPerTurn=64")) == []
