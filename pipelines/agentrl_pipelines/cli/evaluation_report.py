"""What an evaluation found, as a table, a JSON file and a page."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.summary import Evaluated, Share
from agentrl_components.reporting.html import percent, templates
from agentrl_components.reporting.transcript import Replay


class Scorecard(BaseModel):
    """Written as eval.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """The manifest's."""
    model: str
    """What was evaluated: a source, a checkpoint's address, or a model and its endpoint."""
    environments: tuple[str, ...]
    actions: str
    """free or admissible."""
    seed: int
    policy: Evaluated
    random: Evaluated | None
    """The random policy on the same tasks."""
    episodes: tuple[Replay, ...]

    @property
    def categories(self) -> list[str]:
        """Every category, in order."""
        return sorted(self.policy.categories)


def write(card: Scorecard, folder: Path) -> None:
    """Leave eval.json and eval.html in `folder`."""
    page = templates("agentrl_pipelines.cli").get_template("eval.html.j2").render(card=card)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval.html").write_text(page, encoding="utf-8")
    (folder / "eval.json").write_text(card.model_dump_json(indent=1) + "\n", encoding="utf-8")


def show(card: Scorecard, folder: Path, console: Console) -> None:
    """Print the table."""
    console.print(Text(card.model, "bold"))
    console.print(table(card))
    found = card.policy
    if found.pass_at:
        tries = ", ".join(f"pass@{k} {percent(value)}" for k, value in found.pass_at.items())
        console.print(Text(f"solved in at least one of k tries: {tries}"))
    for turns, share in found.turn_sweep.items():
        console.print(Text(f"with {turns} turns allowed: ") + shared(share))
    if found.lost:
        console.print(Text(f"{found.lost} episodes were lost to the environment; not counted"))
    console.print(Text(f"written to {folder / 'eval.html'} and eval.json"), soft_wrap=True)


def table(card: Scorecard) -> Table:
    """Success per category with 95 % intervals, the random policy's beside it."""
    found = card.policy
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    tries = f", {found.samples} tries each" if found.samples > 1 else ""
    out.caption = Text(
        f"95 % intervals; {found.n} held-out tasks{tries}; {found.max_turns} turns allowed; "
        f"temperature {found.temperature:g}"
    )
    out.add_column("held-out success, %", overflow="fold")
    if card.random is not None:
        out.add_column("random policy", justify="right", no_wrap=True)
    out.add_column("this model", justify="right", no_wrap=True)
    columns = [one for one in (card.random, found) if one is not None]
    for name in card.categories:
        shares = (one.categories.get(name) for one in columns)
        out.add_row(Text(name), *(shared(share) for share in shares))
    out.add_section()
    out.add_row(Text("all"), *(shared(one) for one in columns), style="bold")
    out.add_row(Text("mean score"), *(Text(f"{one.score:.3f}") for one in columns))
    replies = (Text(f"{100 * one.wellformed:.1f}") for one in columns)
    out.add_row(Text("well-formed replies"), *replies)
    return out


def shared(share: Share | None) -> Text:
    """A share with its interval, in per cent."""
    if share is None:
        return Text("–")
    bounds = f"[{share.low * 100:.1f}, {share.high * 100:.1f}]"
    return Text(f"{share.success * 100:.1f} {bounds:>13}")
