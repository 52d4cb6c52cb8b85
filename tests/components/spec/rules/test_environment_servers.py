from rule_violations.manifest import mistakes


def test_a_small_server_is_allowed_for_environments_that_need_little(tmp_path):
    changed = "environments[0]={name: rooms, builtin: babyai, memory: 128Mi}"
    enough = "environments[1]={name: lab, builtin: sciworld, memory: 1536Mi}"
    assert mistakes(tmp_path, (changed, enough)) == []


def test_a_timeout_is_allowed_where_a_call_can_be_ended(tmp_path):
    in_processes = "environments[0]={name: a, builtin: maze, replicas: 0, workers: 1, timeoutS: 9}"
    on_servers = "environments[1]={name: b, builtin: maze, timeoutS: 9}"
    assert mistakes(tmp_path, (in_processes, on_servers)) == []


def test_the_default_timeout_may_be_written_where_it_has_no_effect(tmp_path):
    in_stages = "environments[0]={name: c, builtin: maze, replicas: 0, timeoutS: 60}"
    assert mistakes(tmp_path, (in_stages,)) == []


def test_workers_are_no_fix_of_a_timeout_for_an_environment_that_starts_a_program(tmp_path):
    lab = "environments[0]={name: lab, builtin: sciworld, replicas: 0, timeoutS: 9}"
    (message,) = mistakes(tmp_path, ("compute.image=a/b:1", lab))
    assert message.endswith("; leave it out, or set replicas to 1 or more")
