"""The graph of one phase, in Kubeflow Pipelines' own language.

    provision ─► rollout ─┬─► evaluate ─► expand        settle, whatever happened
             └─► update ──┘

Its compiled form is package data (`ir/*.yaml`, made by `make graph`), so that whoever submits needs
no SDK; `binding` puts a run's image, resources and secrets into it. Container components: the image
needs no kfp. Annotations are read as they are here, so they must not be postponed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kfp import compiler, dsl

PIPELINE = "agentrl-phase"
IMAGE = "agentrl"
"""Stands for the image that `binding` puts in."""
Placement = Literal["colocated", "disaggregated"]


def stage(name: str, manifest: str, phase: int, attempt: int) -> dsl.ContainerSpec:
    """The container of a stage."""
    told = ["--manifest", manifest, "--phase", phase, "--attempt", attempt]
    put = ["--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
    return dsl.ContainerSpec(image=IMAGE, command=["agentrl", "stage", name], args=[*told, *put])


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
    """The pipeline: one phase of one run. Nothing in it is ever taken from a cache."""

    @dsl.pipeline(name=PIPELINE, description="One phase of an AgentRLRun.")
    def one_phase(manifest: str, phase: int, attempt: int) -> None:
        told = {"manifest": manifest, "phase": phase, "attempt": attempt}
        with dsl.ExitHandler(fresh(settle(**told)), name="phase"):
            provisioned = fresh(provision(**told))
            at_work = [rollout, update] if placement == "disaggregated" else [train]
            trained = [fresh(part(**told)).after(provisioned) for part in at_work]
            evaluated = fresh(evaluate(**told)).after(*trained)
            fresh(expand(**told)).after(evaluated)

    return one_phase  # type: ignore[no-any-return]


def fresh(task: dsl.PipelineTask) -> dsl.PipelineTask:
    """Never cached: a second run of one manifest must train again."""
    return task.set_caching_options(enable_caching=False)


def write(placement: Placement, path: Path) -> None:
    """Compile the graph into `path`."""
    compiler.Compiler().compile(phase_graph(placement), str(path))
