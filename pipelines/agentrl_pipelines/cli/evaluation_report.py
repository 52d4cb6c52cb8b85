"""The result of `agentrl eval` as a table, a JSON file and an HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue
from rich import box
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.published import MODELS, PUBLISHED, row_name
from agentrl_components.evaluation.summary import HeldoutResult, SuccessRate
from agentrl_components.reporting import scaling
from agentrl_components.reporting.html import percent, templates
from agentrl_components.reporting.transcript import Replay
from agentrl_components.spec import RunSpec
from agentrl_components.storage.open import DirectoryStore
from agentrl_envs.output.console import Console

HIGH_SHARE = 0.05
"""From this share of cut or empty replies on, a result says little about the model."""


class ComparedRow(BaseModel):
    """A category, and the published results for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: str
    """Its name in the paper."""
    tasks: int
    """Number of tasks of this evaluation; the published number is in `published_tasks`."""
    published_tasks: int
    found: SuccessRate | None
    """None: not evaluated."""
    published: dict[str, float]
    """Success in percent by model."""


class Comparison(BaseModel):
    """An evaluation, compared with the paper's table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str
    rows: tuple[ComparedRow, ...]
    """The categories, then all tasks together."""
    conditions: tuple[str, ...]
    """What is not compared; then the model, prompt and turn limit of this evaluation and of the
    published one."""


class EvaluationReport(BaseModel):
    """The content of eval.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """`metadata.name` of the manifest."""
    model: str
    """What was evaluated: a model source, a checkpoint URL, or a model name and its endpoint."""
    environments: tuple[str, ...]
    actions: str
    """`rollout.actions`: free or admissible. With the second an endpoint is shown the admissible
    actions in each prompt, but its replies are not restricted to them."""
    seed: int
    settings: dict[str, JsonValue] = {}
    """All that the result depends on besides the model, by field of the manifest. Empty for an
    endpoint, whose folder has it in evaluation.json."""
    policy: HeldoutResult
    random: HeldoutResult | None
    """The random policy on the same tasks."""
    episodes: tuple[Replay, ...]
    prompt_tokens: int = 0
    """Tokens of the prompts of all episodes, as the endpoint counts them; those that are played
    again for a sweep of turn limits are part of this and the next four."""
    completion_tokens: int = 0
    """Tokens of the replies."""
    replies: int = 0
    """Replies of the endpoint; 0 for weights."""
    cut_replies: int = 0
    """Those that ended at `rollout.maxTokensPerTurn`."""
    empty_replies: int = 0
    """Those without text."""
    resumed: int = 0
    """Episodes that an earlier, interrupted evaluation had finished."""
    paper: Comparison | None = None

    @property
    def categories(self) -> list[str]:
        """The names of all categories, sorted."""
        return sorted(self.policy.categories)

    @property
    def incomplete_replies(self) -> str:
        """The shares of replies that were cut or empty, with what helps if they are high. Empty:
        there are none."""
        if not self.cut_replies and not self.empty_replies:
            return ""
        cut, empty = self.cut_replies / self.replies, self.empty_replies / self.replies
        shares = (
            f"{percent(cut)} of {self.replies:,} replies ended at rollout.maxTokensPerTurn, and "
            f"{percent(empty)} were empty"
        )
        if max(cut, empty) < HIGH_SHARE:
            return shares
        return (
            f"{shares}: success is that of incomplete replies. Raise rollout.maxTokensPerTurn; a "
            "model that thinks before it replies needs room for both, or to have its thoughts "
            "switched off at the server"
        )


def write(report: EvaluationReport, folder: Path) -> None:
    """Write eval.json and eval.html to `folder`, each atomically. With a sweep of turn limits
    scaling.json and scaling.png are written too; without one those of an earlier sweep are deleted.

    Raises:
        StoreError: the folder cannot be written to. A file of an earlier evaluation that is not
            replaced then stays whole.
    """
    page = templates("agentrl_pipelines.cli").get_template("eval.html.j2").render(report=report)
    files = DirectoryStore(folder)
    # First: it says which evaluation the folder has, and all of its results are in it.
    files.replace("eval.json", f"{report.model_dump_json(indent=1)}\n".encode())
    files.replace("eval.html", page.encode())
    if report.policy.turn_sweep:
        found = scaling.Scaling.of(report.model, report.policy)
        files.replace("scaling.json", f"{found.model_dump_json(indent=1)}\n".encode())
        files.replace("scaling.png", scaling.png(found))
    else:
        for name in ("scaling.json", "scaling.png"):
            files.delete(name)


def comparison(family: str, spec: RunSpec, model: str, found: HeldoutResult) -> Comparison:
    """The result, compared with the paper's results for `family`."""
    published = PUBLISHED[family]
    ours = {row_name(name): share for name, share in found.categories.items()}
    # A row of the paper's table may be an environment: one for each data set.
    whole = found.environments or {spec.environments[0].name: from_result(found)}
    ours |= {row_name(name): share for name, share in whole.items()}
    others = sum(
        share.n
        for name, share in found.categories.items()
        if row_name(name) not in published.counts
    )
    rows = [
        ComparedRow(
            category=name,
            tasks=ours[name].n if name in ours else 0,
            published_tasks=count,
            found=ours.get(name),
            published=dict(zip(MODELS, published.categories[name], strict=True)),
        )
        for name, count in published.counts.items()
    ]
    overall = ComparedRow(
        category="all",
        tasks=found.n - others,
        published_tasks=sum(published.counts.values()),
        found=None if others else from_result(found),
        published=dict(published.overall),
    )
    options = {e.name: e.options for e in spec.environments}
    here = (
        f"This evaluation: {model}; {found.turns_allowed}; temperature {found.temperature:g}; "
        f"{found.samples} sample{'s' if found.samples > 1 else ''}; {found.n} tasks; options "
        f"{json.dumps(options, sort_keys=True)}."
    )
    conditions: tuple[str, ...] = (here, published.conditions)
    if others:
        different = (
            f"{others} of {found.n} tasks are in none of the paper's categories, so success in all "
            f"tasks is not compared; examples/evaluation/{family}.yaml has the paper's tasks."
        )
        conditions = (different, *conditions)
    return Comparison(family=family, rows=(*rows, overall), conditions=conditions)


def from_result(found: HeldoutResult) -> SuccessRate:
    """The success rate over all tasks."""
    return SuccessRate(success=found.success, low=found.low, high=found.high, n=found.n)


def show(report: EvaluationReport, console: Console) -> None:
    """Print the result to `console`."""
    console.print(Text(report.model, "bold"))
    console.print(table(report))
    if report.paper is not None:
        console.print(paper_table(report.paper))
        for line in report.paper.conditions:
            console.print(Text(line, "dim"))
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
                "spec.model.context, or that of the endpoint, or lower the number of turns",
                "yellow",
            )
        )
    if report.incomplete_replies:
        console.print(Text(report.incomplete_replies, "yellow"))
    if found.missing:
        console.print(Text(f"success is that of {found.n} tasks{found.without}", "yellow"))
    if found.lost:
        console.print(
            Text(
                f"{found.lost} episodes were lost to failures of the environment or the endpoint "
                "and are not counted"
            )
        )
    if report.prompt_tokens or report.completion_tokens:
        resumed = f"; {report.resumed} episodes were there already" if report.resumed else ""
        tokens = f"{report.prompt_tokens:,} prompt and {report.completion_tokens:,} reply tokens"
        console.print(Text(f"cost: {tokens}{resumed}"))


def table(report: EvaluationReport) -> Table:
    """Success per category with 95 % intervals, beside the random policy's."""
    found = report.policy
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    tries = f", {found.samples} tries each" if found.samples > 1 else ""
    out.caption = Text(
        f"95 % intervals; {found.n} held-out tasks{tries}; {found.turns_allowed}; "
        f"temperature {found.temperature:g}"
    )
    out.add_column("held-out success, %", overflow="fold")
    # In a narrow terminal an interval is below its share. With `no_wrap` the names would vanish.
    if report.random is not None:
        out.add_column("random policy", justify="right", overflow="fold")
    out.add_column("this model", justify="right", overflow="fold")
    columns = [one for one in (report.random, found) if one is not None]
    for name in report.categories:
        shares = (one.categories.get(name) for one in columns)
        out.add_row(Text(name), *(share_text(share) for share in shares))
    out.add_section()
    out.add_row(Text("all"), *(share_text(one) for one in columns), style="bold")
    out.add_row(Text("mean score"), *(Text(f"{100 * one.score:.1f}") for one in columns))
    replies = (Text(f"{100 * one.wellformed:.1f}") for one in columns)
    out.add_row(Text("well-formed replies"), *replies)
    return out


def paper_table(paper: Comparison) -> Table:
    """The categories of the paper with this result and the published ones, in percent."""
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    out.add_column(f"{paper.family}, success in %", overflow="fold")
    for title in ("tasks", "this model", *MODELS):
        out.add_column(title, justify="right", overflow="fold")
    for row in paper.rows:
        values = (f"{row.published[name]:.1f}" if name in row.published else "" for name in MODELS)
        tasks = f"{row.tasks} of {row.published_tasks}"
        out.add_row(Text(row.category), tasks, share_text(row.found), *values)
    return out


def share_text(share: SuccessRate | None) -> Text:
    """A share and its 95 % interval, in percent."""
    if share is None:
        return Text("–")
    bounds = f"[{share.low * 100:.1f}, {share.high * 100:.1f}]"
    return Text(f"{share.success * 100:.1f} {bounds:>13}")
