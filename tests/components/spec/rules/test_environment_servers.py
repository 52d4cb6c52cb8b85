from rule_violations.manifest import mistakes


def test_a_small_server_is_allowed_for_environments_that_need_little(tmp_path):
    changed = "environments[0]={name: rooms, builtin: babyai, memory: 128Mi}"
    enough = "environments[1]={name: lab, builtin: sciworld, memory: 1536Mi}"
    assert mistakes(tmp_path, (changed, enough)) == []
