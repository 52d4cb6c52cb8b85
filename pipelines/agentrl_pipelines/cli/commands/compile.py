"""agentrl compile: the phase graph as Kubeflow Pipelines takes it."""

from __future__ import annotations

from pathlib import Path

import click

from agentrl_pipelines.cli.errors import exit_on_error

UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid that a cluster gives a run."""


@click.command(name="compile")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--platform", type=click.Path(dir_okay=False, path_type=Path), help="platform.yaml.")
@click.option("--uid", default=UID, help="Of the run in its cluster; names its Secrets.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field.")
@click.option("-o", "--output", type=click.File("w"), default="-", help="Default: print it.")
def compile_(
    file: str, platform: Path | None, uid: str, overrides: tuple[str, ...], output: click.File
) -> None:
    """Write the pipeline of one phase of FILE, as `kfp pipeline create` and the web page take it.

    Its parameters are the manifest as the stages see it, the phase and the attempt; where a KFP
    run gives none, it is the first attempt at FILE's first phase. The environment servers that it
    names are there for an AgentRLRun of that uid; without one, use environments of replicas 0 or
    with a url."""
    with exit_on_error():
        import yaml

        from agentrl_components.spec.parsing.load import load
        from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
        from agentrl_pipelines.platform.config import Platform
        from agentrl_pipelines.platform.config import load as platform_of
        from agentrl_pipelines.platform.resolve import cluster_manifest

        known = Platform() if platform is None else platform_of(platform)
        run = load(file, overrides)
        bound = phase_pipeline(run, uid, known)
        manifest = cluster_manifest(run, uid, known).model_dump_json(
            by_alias=True, exclude_defaults=True
        )
        inputs = bound["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
        for name, value in {"manifest": manifest, "phase": 0, "attempt": 0}.items():
            inputs[name] |= {"defaultValue": value, "isOptional": True}
        for number, name in enumerate(("pipeline_spec", "platform_spec")):
            text = yaml.safe_dump(bound[name], sort_keys=False, allow_unicode=True)
            click.echo(("---\n" if number else "") + text, nl=False, file=output)  # type: ignore[arg-type]
