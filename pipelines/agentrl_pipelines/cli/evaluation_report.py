"""The result of `agentrl eval` as a table, a JSON file and an HTML page."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.summary import HeldoutResult, SuccessRate
from agentrl_components.reporting.html import percent, templates
from agentrl_components.reporting.transcript import Replay


class EvaluationReport(BaseModel):
    """The content of eval.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """`metadata.name` of the manifest."""
    model: str
    """What was evaluated: a model source, a checkpoint URL, or a model name and its endpoint."""
    environments: tuple[str, ...]
    actions: str
    """`rollout.actions`: free or admissible."""
    seed: int
    policy: HeldoutResult
    random: HeldoutResult | None
    """The random policy on the same tasks."""
    episodes: tuple[Replay, ...]

    @property
    def categories(self) -> list[str]:
        """The names of all categories, sorted."""
        return sorted(self.policy.categories)


def write(report: EvaluationReport, folder: Path) -> None:
    """Write eval.json and eval.html to `folder`."""
    page = templates("agentrl_pipelines.cli").get_template("eval.html.j2").render(report=report)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval.html").write_text(page, encoding="utf-8")
    (folder / "eval.json").write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")


def show(report: EvaluationReport, folder: Path, console: Console) -> None:
    """Print the result to `console`."""
    console.print(Text(report.model, "bold"))
    console.print(table(report))
    found = report.policy
    if found.pass_at:
        tries = ", ".join(f"pass@{k} {percent(value)}" for k, value in found.pass_at.items())
        console.print(Text(f"solved in at least one of k tries: {tries}"))
    for turns, share in found.turn_sweep.items():
        console.print(Text(f"with {turns} turns allowed: ") + share_text(share))
    if found.out_of_tokens:
        console.print(
            Text(
                f"{found.out_of_tokens} episodes ended because they filled the context; raise "
                "spec.model.context or lower the number of turns",
                "yellow",
            )
        )
    if found.lost:
        console.print(
            Text(f"{found.lost} episodes were lost to environment failures and are not counted")
        )
    console.print(Text(f"written to {folder / 'eval.html'} and eval.json"), soft_wrap=True)


def table(report: EvaluationReport) -> Table:
    """Success per category with 95 % intervals, beside the random policy's."""
    found = report.policy
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    tries = f", {found.samples} tries each" if found.samples > 1 else ""
    out.caption = Text(
        f"95 % intervals; {found.n} held-out tasks{tries}; {found.max_turns} turns allowed; "
        f"temperature {found.temperature:g}"
    )
    out.add_column("held-out success, %", overflow="fold")
    if report.random is not None:
        out.add_column("random policy", justify="right", no_wrap=True)
    out.add_column("this model", justify="right", no_wrap=True)
    columns = [one for one in (report.random, found) if one is not None]
    for name in report.categories:
        shares = (one.categories.get(name) for one in columns)
        out.add_row(Text(name), *(share_text(share) for share in shares))
    out.add_section()
    out.add_row(Text("all"), *(share_text(one) for one in columns), style="bold")
    out.add_row(Text("mean score"), *(Text(f"{one.score:.3f}") for one in columns))
    replies = (Text(f"{100 * one.wellformed:.1f}") for one in columns)
    out.add_row(Text("well-formed replies"), *replies)
    return out


def share_text(share: SuccessRate | None) -> Text:
    """A share and its 95 % interval, in percent."""
    if share is None:
        return Text("–")
    bounds = f"[{share.low * 100:.1f}, {share.high * 100:.1f}]"
    return Text(f"{share.success * 100:.1f} {bounds:>13}")
