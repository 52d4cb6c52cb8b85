"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path

import click

option_set = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a field of the manifest, such as seed=3 or horizon.phases[0].maxTurns=2. "
    "Repeatable.",
)
option_seed = click.option("--seed", type=int, help="Same as --set seed=N.")
option_root = click.option(
    "--root", type=click.Path(path_type=Path), required=True, help="Folder of the run."
)
option_context = click.option(
    "--context", help="Context of the kubeconfig.  [default: the current context]"
)
option_namespace = click.option("--namespace", "-n", help="Namespace.  [default: the context's]")
