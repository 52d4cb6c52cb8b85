"""Options that several commands have in common."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """`click.FloatRange` without nan, which passes every comparison, and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises `click.BadParameter`."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


option_set = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a field of the manifest, such as seed=3 or horizon.phases[0].maxTurns=2. "
    "Repeatable.",
)
option_seed = click.option("--seed", type=int, help="Same as `--set seed=N`.")
option_root = click.option(
    "--root", type=click.Path(path_type=Path), required=True, help="Folder of the run."
)
option_context = click.option(
    "--context", help="Context of the kubeconfig.  [default: the current context]"
)
option_namespace = click.option("--namespace", "-n", help="Namespace.  [default: the context's]")
