"""Names of actions in metrics."""

from typing import get_args

from agentrl_operator.planning.actions import Action


def test_labels_of_actions_in_metrics_are_distinct_and_stay_the_same():
    """Dashboards and alerts refer to them: they do not follow the names of classes."""
    labels = sorted(action.label for action in get_args(Action))
    assert labels == [
        "add_finalizer",
        "apply_autoscaler",
        "apply_environment",
        "create_mlflow_run",
        "create_ray_cluster",
        "create_token_secret",
        "create_workload",
        "delete_autoscaler",
        "delete_deployment",
        "delete_kfp_runs",
        "delete_ray_cluster",
        "delete_resource",
        "delete_run_data",
        "delete_sandboxes",
        "delete_workflow",
        "delete_workload",
        "finish_mlflow_run",
        "remove_finalizer",
        "report_kept_data",
        "scale_environment",
        "set_workload_priority",
        "start_kfp_run",
        "terminate_kfp_run",
        "update_workload_status",
    ]
