"""`agentrl crd`: print the CustomResourceDefinition or the manifest reference."""

from __future__ import annotations

import click

from agentrl_envs.output.printable import echo


@click.command()
@click.option("--docs", is_flag=True, help="Print the manifest reference as Markdown instead.")
def crd(docs: bool) -> None:
    """Print the CustomResourceDefinition of AgentRLRun.

    Install it with `agentrl crd | kubectl apply --server-side -f -`."""
    from agentrl_components.spec.crd.definition import text
    from agentrl_components.spec.crd.reference import reference

    echo(reference() if docs else text(), nl=False)
