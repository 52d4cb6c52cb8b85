"""`agentrl compile FILE`: write the KFP pipeline of one phase."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import click

from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import option_set

UID = "00000000-0000-0000-0000-000000000000"
"""Placeholder for the uid that the cluster assigns."""


@click.command(name="compile", short_help="Write the KFP pipeline of one phase.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--platform",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Platform configuration (platform.yaml).",
)
@click.option(
    "--uid",
    type=click.UUID,
    default=UID,
    help="Uid of the AgentRLRun; part of the names of its Secrets and Services.",
)
@option_set
@click.option(
    "-o",
    "--output",
    type=click.File("w"),
    default="-",
    help="Output file.  [default: standard output]",
)
def compile_(
    file: str, platform: Path | None, uid: UUID, overrides: tuple[str, ...], output: click.File
) -> None:
    """Write the KFP pipeline of one phase of FILE, for `kfp pipeline create` or the KFP UI.

    Its parameters are the resolved manifest, the phase and the attempt; by default the first
    attempt at the first phase. The pipeline uses the environment servers of the AgentRLRun with
    the given uid; if there is none, use environments with replicas 0 or with a url."""
    with exit_on_error():
        import yaml

        from agentrl_components.errors import SpecError
        from agentrl_components.spec.parsing.load import load
        from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
        from agentrl_pipelines.platform.config import Platform
        from agentrl_pipelines.platform.config import load as platform_of
        from agentrl_pipelines.platform.resolve import cluster_manifest
        from agentrl_pipelines.platform.store_access import folder_mistake

        config = Platform() if platform is None else platform_of(platform)
        run = load(file, overrides)
        mistake = folder_mistake(run.spec.storage)
        if mistake is not None:
            raise SpecError([mistake])
        pipeline = phase_pipeline(run, str(uid), config)
        manifest = cluster_manifest(run, str(uid), config).model_dump_json(
            by_alias=True, exclude_defaults=True
        )
        inputs = pipeline["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
        for name, value in {"manifest": manifest, "phase": 0, "attempt": 0}.items():
            inputs[name] |= {"defaultValue": value, "isOptional": True}
        texts = [
            yaml.safe_dump(pipeline[name], sort_keys=False, allow_unicode=True)
            for name in ("pipeline_spec", "platform_spec")
        ]
        try:
            click.echo(  # noqa: TID251 - YAML escapes control characters
                "---\n".join(texts),
                nl=False,
                file=output,  # type: ignore[arg-type]
            )
        except click.FileError as error:  # the file is opened when it is written
            raise click.UsageError(
                f"--output: {output.name} cannot be written ({error.message}); check the path"
            ) from None
