import pytest
from kfp_stub import KfpStub

from agentrl_envs.server.run import running
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.clients.kfp import KfpApi
from agentrl_operator.clients.protocols import Submission
from agentrl_operator.errors import KfpError

RUN = "d4f24ec4-9fc5-5b64-9d72-5a6b3ff0c3c4"


class StubWorkflows:
    """What Kubernetes says of the stub's Workflows."""

    def __init__(self, stub):
        self.stub = stub
        self.phase = "Running"
        self.asked = 0

    async def workflow_phases(self, namespace, run_id):
        self.asked += 1
        return [self.phase] * self.stub.workflows.count(run_id)


@pytest.fixture
def stub():
    return KfpStub()


@pytest.fixture
async def api(stub, tmp_path):
    token = tmp_path / "token"
    token.write_text("projected\n")
    with running(stub.app()) as url:
        api = KfpApi(url, StubWorkflows(stub), token_file=token)
        yield api
        await api.close()


def submission(**changes):
    given = {
        "run_id": RUN,
        "name": "demo: phase 1 of 2",
        "experiment": "demo-6a1b2c3d",
        "namespace": "kubeflow",
        "pipeline_spec": {"pipeline_spec": {"root": {}}, "platform_spec": {}},
        "parameters": {"manifest": "{}", "phase": 0, "attempt": 0},
    }
    return Submission(**given | changes)


async def test_a_run_is_posted_as_kfp_takes_it(api, stub):
    assert await api.get_run(RUN) is None
    await api.start_run(submission(service_account="trainer"))

    assert stub.posted == [
        {
            "run_id": RUN,
            "display_name": "demo: phase 1 of 2",
            "experiment_id": "experiment-0",
            "pipeline_spec": {"pipeline_spec": {"root": {}}, "platform_spec": {}},
            "runtime_config": {"parameters": {"manifest": "{}", "phase": 0, "attempt": 0}},
            "service_account": "trainer",
        }
    ]
    assert await api.get_run(RUN) == KfpRun(state="RUNNING")
    assert stub.tokens == {"Bearer projected"}


async def test_a_backend_with_mlflow_is_told_to_leave_a_tracked_run_alone(api, stub):
    await api.start_run(submission(tracked=True))
    await api.start_run(submission(run_id="6f1b4f4c-0000-5000-8000-000000000001"))

    tracked, untracked = stub.posted
    assert tracked["plugins_input"] == {"mlflow": {"disabled": True}}
    assert "plugins_input" not in untracked


async def test_a_backend_too_old_for_plugins_is_asked_without_and_only_once_with(api, stub):
    stub.plugins = False
    other = "6f1b4f4c-0000-5000-8000-000000000001"
    await api.start_run(submission(tracked=True))
    stub.plugins = True
    await api.start_run(submission(tracked=True, run_id=other))

    assert stub.workflows == [RUN, other]
    assert all("plugins_input" not in run for run in stub.posted)


async def test_a_run_that_is_there_is_not_posted_again(api, stub):
    await api.start_run(submission())
    await api.start_run(submission())

    assert stub.workflows == [RUN]


async def test_only_the_first_start_of_a_run_looks_for_nothing(api, stub):
    await api.start_run(submission(first=True))
    assert api._workflows.asked == 0
    await api.start_run(submission(run_id="6f1b4f4c-0000-5000-8000-000000000001"))
    assert api._workflows.asked == 1


async def test_a_lost_answer_never_starts_a_second_workflow(api, stub):
    stub.drop_answers = True
    with pytest.raises(KfpError) as caught:
        await api.start_run(submission(first=True))
    assert caught.value.retryable
    stub.drop_answers = False
    await api.start_run(submission())

    assert stub.workflows == [RUN]


async def test_a_workflow_that_kfp_does_not_know_yet_is_waited_for(api, stub):
    stub.drop_rows = True
    with pytest.raises(KfpError):
        await api.start_run(submission())
    stub.drop_rows = False
    with pytest.raises(KfpError, match="not starting it a second time"):
        await api.start_run(submission())
    assert stub.workflows == [RUN]

    api._workflows.phase = "Failed"
    await api.start_run(submission())
    assert stub.workflows == [RUN, RUN]


async def test_an_experiment_that_exists_is_used(api, stub):
    await api.start_run(submission())
    await api.start_run(submission(run_id="e4f24ec4-9fc5-5b64-9d72-5a6b3ff0c3c4"))

    assert [run["experiment_id"] for run in stub.posted] == ["experiment-0", "experiment-0"]


async def test_terminate_leaves_runs_alone_that_have_ended_or_are_not_known(api, stub):
    await api.terminate_run(RUN)
    await api.start_run(submission())
    await api.terminate_run(RUN)
    assert (await api.get_run(RUN)).state == "FAILED"
    stub.end(RUN, "SUCCEEDED")
    await api.terminate_run(RUN)
    assert (await api.get_run(RUN)).state == "SUCCEEDED"


async def test_forgetting_deletes_the_runs_and_their_experiment(api, stub):
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")
    await api.start_run(submission())
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")

    assert (stub.runs, stub.experiments) == ({}, {})


def ran(count, experiment="experiment-0"):
    """As many runs of an experiment, one of them at work."""
    run = {"experiment_id": experiment, "state": "SUCCEEDED"}
    runs = {f"{experiment}-{n}": run | {"run_id": f"{experiment}-{n}"} for n in range(count)}
    runs[f"{experiment}-{count - 1}"]["state"] = "RUNNING"
    return runs


async def test_every_run_of_an_experiment_is_listed_and_none_of_another(api, stub):
    assert await api.list_runs("demo-6a1b2c3d", "kubeflow") == {}
    stub.experiments = {"demo-6a1b2c3d": "experiment-0", "other": "experiment-1"}
    stub.runs = ran(120) | ran(2, "experiment-1")  # three pages
    found = await api.list_runs("demo-6a1b2c3d", "kubeflow")

    assert found.keys() == ran(120).keys()
    assert [run_id for run_id, run in found.items() if run.alive] == ["experiment-0-119"]


async def test_forgetting_deletes_the_runs_of_every_page(api, stub):
    stub.experiments = {"demo-6a1b2c3d": "experiment-0"}
    stub.runs = ran(120)
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")

    assert (stub.runs, stub.experiments) == ({}, {})


async def test_a_kfp_that_is_not_there_is_an_error_that_says_so_and_may_pass():
    api = KfpApi("http://127.0.0.1:9", StubWorkflows(KfpStub()))
    with pytest.raises(KfpError, match="KFP: GET runs/") as caught:
        await api.get_run(RUN)
    await api.close()

    assert caught.value.retryable
