"""The graph of one phase as a Kubeflow Pipelines pipeline.

    provision ─► rollout ─┬─► evaluate ─► expand        settle: exit handler, always runs
             └─► update ──┘

With `placement: colocated`, one `train` stage replaces rollout and update. `make graph` compiles
the graph into the package data `ir/*.yaml`, so that submitting a run needs no SDK; `pipeline_spec`
fills in a run's image, resources and secrets. The stages are container components, so the image
needs no kfp. kfp reads the annotations at import time: do not postpone them with a future import.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kfp import compiler, dsl

PIPELINE = "agentrl-phase"
IMAGE = "agentrl"
"""Placeholder for the image; `pipeline_spec` replaces it."""
Placement = Literal["colocated", "disaggregated"]


def stage(name: str, manifest: str, phase: int, attempt: int) -> dsl.ContainerSpec:
    """The container of a stage: `agentrl stage NAME`."""
    args = ["--manifest", manifest, "--phase", phase, "--attempt", attempt]
    launcher = ["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
    command = ["agentrl", "stage", name]
    return dsl.ContainerSpec(image=IMAGE, command=command, args=[*args, *launcher])


@dsl.container_component
def provision(
    manifest: str, phase: int, attempt: int, lineage: dsl.Output[dsl.Artifact]
) -> dsl.ContainerSpec:
    return stage("provision", manifest, phase, attempt)


@dsl.container_component
def rollout(
    manifest: str, phase: int, attempt: int, trajectories: dsl.Output[dsl.Dataset]
) -> dsl.ContainerSpec:
    return stage("rollout", manifest, phase, attempt)


@dsl.container_component
def update(
    manifest: str, phase: int, attempt: int, checkpoint: dsl.Output[dsl.Model]
) -> dsl.ContainerSpec:
    return stage("update", manifest, phase, attempt)


@dsl.container_component
def train(
    manifest: str,
    phase: int,
    attempt: int,
    trajectories: dsl.Output[dsl.Dataset],
    checkpoint: dsl.Output[dsl.Model],
) -> dsl.ContainerSpec:
    return stage("train", manifest, phase, attempt)


@dsl.container_component
def evaluate(
    manifest: str,
    phase: int,
    attempt: int,
    evaluation: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
) -> dsl.ContainerSpec:
    return stage("evaluate", manifest, phase, attempt)


@dsl.container_component
def expand(
    manifest: str, phase: int, attempt: int, decision: dsl.Output[dsl.Artifact]
) -> dsl.ContainerSpec:
    return stage("expand", manifest, phase, attempt)


@dsl.container_component
def settle(manifest: str, phase: int, attempt: int) -> dsl.ContainerSpec:
    return stage("settle", manifest, phase, attempt)


def phase_graph(placement: Placement) -> Callable[..., None]:
    """The pipeline function of one phase, with caching disabled for every task."""

    @dsl.pipeline(name=PIPELINE, description="One phase of an AgentRLRun.")
    def one_phase(manifest: str, phase: int, attempt: int) -> None:
        inputs = {"manifest": manifest, "phase": phase, "attempt": attempt}
        with dsl.ExitHandler(without_cache(settle(**inputs)), name="phase"):
            provision_task = without_cache(provision(**inputs))
            stages = [rollout, update] if placement == "disaggregated" else [train]
            train_tasks = [without_cache(one(**inputs)).after(provision_task) for one in stages]
            evaluate_task = without_cache(evaluate(**inputs)).after(*train_tasks)
            without_cache(expand(**inputs)).after(evaluate_task)

    return one_phase  # type: ignore[no-any-return]


def without_cache(task: dsl.PipelineTask) -> dsl.PipelineTask:
    """`task` with caching disabled: a second run of the same manifest must train again."""
    return task.set_caching_options(enable_caching=False)


def write(placement: Placement, path: Path) -> None:
    """Compile the graph into the YAML file `path`."""
    compiler.Compiler().compile(phase_graph(placement), str(path))
