import pytest
from kfp_stub import KfpStub

from agentrl_envs.server.run import running
from agentrl_operator.api.kfp_run import KfpRun, Submission
from agentrl_operator.clients.kfp import KfpApi
from agentrl_operator.clients.workflows import Workflow
from agentrl_operator.errors import KfpError

RUN = "d4f24ec4-9fc5-5b64-9d72-5a6b3ff0c3c4"


class StubWorkflows:
    """The Workflows of the stub, as Kubernetes shows them."""

    def __init__(self, stub):
        self.stub = stub
        self.phase = "Running"
        self.asked = 0

    async def list_workflows(self, namespace, run_id):
        self.asked += 1
        return [Workflow(phase=self.phase)] * self.stub.workflows.count(run_id)


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


async def test_a_run_is_posted_in_the_form_of_the_api(api, stub):
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


async def test_a_backend_with_mlflow_creates_no_mlflow_run_for_a_tracked_run(api, stub):
    await api.start_run(submission(tracked=True))
    await api.start_run(submission(run_id="6f1b4f4c-0000-5000-8000-000000000001"))

    tracked, untracked = stub.posted
    assert tracked["plugins_input"] == {"mlflow": {"disabled": True}}
    assert "plugins_input" not in untracked


async def test_the_plugins_field_is_sent_only_once_to_a_backend_that_rejects_it(api, stub):
    stub.plugins = False
    other = "6f1b4f4c-0000-5000-8000-000000000001"
    await api.start_run(submission(tracked=True))
    stub.plugins = True
    await api.start_run(submission(tracked=True, run_id=other))

    assert stub.workflows == [RUN, other]
    assert all("plugins_input" not in run for run in stub.posted)


async def test_an_existing_run_is_not_posted_again(api, stub):
    await api.start_run(submission())
    await api.start_run(submission())

    assert stub.workflows == [RUN]


async def test_only_the_first_start_skips_the_search_for_an_earlier_one(api, stub):
    await api.start_run(submission(first=True))
    assert api._workflows.asked == 0
    await api.start_run(submission(run_id="6f1b4f4c-0000-5000-8000-000000000001"))
    assert api._workflows.asked == 1


async def test_a_lost_response_never_starts_a_second_workflow(api, stub):
    stub.drop_answers = True
    with pytest.raises(KfpError) as caught:
        await api.start_run(submission(first=True))
    assert caught.value.retryable
    stub.drop_answers = False
    await api.start_run(submission())

    assert stub.workflows == [RUN]


async def test_a_run_with_a_workflow_that_kfp_does_not_list_yet_is_not_posted(api, stub):
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


async def test_an_existing_experiment_is_used(api, stub):
    await api.start_run(submission())
    await api.start_run(submission(run_id="e4f24ec4-9fc5-5b64-9d72-5a6b3ff0c3c4"))

    assert [run["experiment_id"] for run in stub.posted] == ["experiment-0", "experiment-0"]


async def test_ended_and_unknown_runs_are_not_terminated(api, stub):
    await api.terminate_run(RUN)
    await api.start_run(submission())
    await api.terminate_run(RUN)
    assert (await api.get_run(RUN)).state == "FAILED"
    stub.end(RUN, "SUCCEEDED")
    await api.terminate_run(RUN)
    assert (await api.get_run(RUN)).state == "SUCCEEDED"


async def test_a_run_without_a_workflow_is_terminated_although_kfp_answers_500(api, stub):
    await api.start_run(submission())
    stub.workflows.clear()
    await api.terminate_run(RUN)

    assert (await api.get_run(RUN)).state == "CANCELING"


async def test_a_termination_that_kfp_did_not_record_is_an_error(api, stub):
    await api.start_run(submission())
    stub.workflows.clear()
    stub.terminable = False
    with pytest.raises(KfpError, match="error terminating its workflow"):
        await api.terminate_run(RUN)


async def test_deleting_an_experiment_deletes_its_runs(api, stub):
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")
    await api.start_run(submission())
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")

    assert (stub.runs, stub.experiments) == ({}, {})


def ran(count, experiment="experiment-0"):
    """This many runs of an experiment, one of them running."""
    run = {"experiment_id": experiment, "state": "SUCCEEDED"}
    runs = {f"{experiment}-{n}": run | {"run_id": f"{experiment}-{n}"} for n in range(count)}
    runs[f"{experiment}-{count - 1}"]["state"] = "RUNNING"
    return runs


async def test_exactly_the_runs_of_an_experiment_are_listed(api, stub):
    assert await api.list_runs("demo-6a1b2c3d", "kubeflow") == {}
    stub.experiments = {"demo-6a1b2c3d": "experiment-0", "other": "experiment-1"}
    stub.runs = ran(120) | ran(2, "experiment-1")  # three pages
    found = await api.list_runs("demo-6a1b2c3d", "kubeflow")

    assert found.keys() == ran(120).keys()
    assert [run_id for run_id, run in found.items() if run.alive] == ["experiment-0-119"]


async def test_deleting_an_experiment_deletes_the_runs_of_every_page(api, stub):
    stub.experiments = {"demo-6a1b2c3d": "experiment-0"}
    stub.runs = ran(120)
    await api.delete_experiment("demo-6a1b2c3d", "kubeflow")

    assert (stub.runs, stub.experiments) == ({}, {})


async def test_an_unreachable_kfp_is_a_retryable_error():
    api = KfpApi("http://127.0.0.1:9", StubWorkflows(KfpStub()))
    with pytest.raises(KfpError, match="KFP: GET runs/") as caught:
        await api.get_run(RUN)
    await api.close()

    assert caught.value.retryable
