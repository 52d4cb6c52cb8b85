"""`agentrl eval FILE`: evaluate a model, a checkpoint or an endpoint on held-out tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import option_set

if TYPE_CHECKING:
    from agentrl_components.spec import AgentRLRun
    from agentrl_pipelines.local.evaluation import EvaluationResult


@click.command("eval", short_help="Evaluate a model, a checkpoint or an endpoint.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--model", metavar="SOURCE", help="Model source, as in spec.model.source.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="Evaluate a checkpoint of the run in this folder.",
)
@click.option(
    "--checkpoint", metavar="N|best|last", help="With --root: the checkpoint.  [default: best]"
)
@click.option(
    "--openai",
    "url",
    metavar="URL",
    help="Base URL of an OpenAI-compatible endpoint, ending in /v1.",
)
@click.option("--model-name", metavar="NAME", help="With --openai: name of the model.")
@click.option(
    "--key-env",
    metavar="VAR",
    help="With --openai: environment variable with the API key.  [default: OPENAI_API_KEY]",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="With --openai: longest time for a reply.  [default: 600]",
)
@click.option("--tasks", type=int, help="Number of held-out tasks.")
@click.option("--samples", type=int, help="Samples per task; above 1, pass@k is reported.")
@click.option("--max-turns", type=int, help="Maximum turns of an episode.")
@click.option("--temperature", type=float, help="Sampling temperature; 0 is greedy.")
@click.option("--sweep", metavar="N,N,...", help="Also evaluate with these maximum turns.")
@click.option("--concurrency", type=int, help="Episodes in flight.")
@click.option(
    "--paper",
    type=click.Choice(["babyai", "sciworld", "search", "textcraft", "webarena"]),
    help="Compare with the results of arXiv 2509.08755.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of eval.json and eval.html.  [default: eval/ in the folder of the run, and of a "
    "checkpoint eval/NUMBER/ there]",
)
@option_set
def evaluate(
    file: str,
    model: str | None,
    root: Path | None,
    checkpoint: str | None,
    url: str | None,
    model_name: str | None,
    key_env: str | None,
    timeout: float | None,
    tasks: int | None,
    samples: int | None,
    max_turns: int | None,
    temperature: float | None,
    sweep: str | None,
    concurrency: int | None,
    paper: str | None,
    out: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Evaluate a model on the held-out tasks of the manifest FILE, without training.

    The model is that of FILE, --model, a checkpoint of the run in --root, or the one behind the
    endpoint --openai. An interrupted evaluation of an endpoint is continued by the same command.
    With --sweep a figure of success by turns allowed is written too."""
    options = {
        "model.source": model,
        "evaluation.tasks": tasks,
        "evaluation.samples": samples,
        "evaluation.maxTurns": max_turns,
        "evaluation.temperature": temperature,
        "rollout.concurrency": concurrency,
        "evaluation.turnSweep": None if sweep is None else f"[{sweep}]",
    }
    fields = [f"{field}={value}" for field, value in options.items() if value is not None]
    check_model_options(model, root, checkpoint, url, model_name, key_env, timeout)
    with exit_on_error():
        from agentrl_components.errors import SpecError
        from agentrl_components.spec.parsing.load import load
        from agentrl_components.spec.rules.environments.text import default_terse_texts
        from agentrl_components.spec.rules.validation import local_mistakes
        from agentrl_pipelines.local.signals import INTERRUPTED, TO_CONTINUE, interrupt_at_once
        from agentrl_pipelines.local.variables import set_variables

        with interrupt_at_once(INTERRUPTED if url is None else TO_CONTINUE):
            run = load(file, (*overrides, *fields))
            set_variables(run.spec.compute)
            mistakes = [str(mistake) for mistake in local_mistakes(run)]
            if url is not None:
                mistakes += map(str, default_terse_texts(run.spec))
            if mistakes:
                raise SpecError(mistakes)
            folder = out or Path("runs") / run.metadata.name / "eval"
            if url is not None and model_name is not None:
                evaluate_openai(run, url, model_name, key_env, timeout, folder, paper)
            elif root is not None:
                evaluate_checkpoint(run, root, checkpoint or "best", out, paper)
            else:
                evaluate_weights(run, run.spec.model.source, folder, paper)


def check_model_options(
    model: str | None,
    root: Path | None,
    checkpoint: str | None,
    url: str | None,
    model_name: str | None,
    key_env: str | None,
    timeout: float | None,
) -> None:
    """Raises `click.UsageError` if the options name several models, or an option has no effect."""
    named = {"--model": model, "--root": root, "--openai": url}
    several = [name for name, value in named.items() if value is not None]
    if len(several) > 1:
        raise click.UsageError(
            f"{several[1]}: cannot be combined with {several[0]}; give one of them"
        )
    if checkpoint is not None and root is None:
        raise click.UsageError("--checkpoint: requires --root, the folder of the run")
    if url is not None and model_name is None:
        raise click.UsageError(
            "--model-name: required with --openai: the name of the model at the endpoint"
        )
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        raise click.UsageError(
            f"--openai: {url} is not an HTTP URL; write one, such as http://localhost:8000/v1"
        )
    of_endpoints = {"--model-name": model_name, "--key-env": key_env, "--timeout": timeout}
    for name, value in of_endpoints.items():
        if value is not None and url is None:
            raise click.UsageError(f"{name}: has no effect without --openai")


def evaluate_openai(
    run: AgentRLRun,
    url: str,
    name: str,
    key_env: str | None,
    timeout_s: float | None,
    folder: Path,
    paper: str | None,
) -> None:
    """Evaluate the model behind an OpenAI-compatible endpoint."""
    from agentrl_components.rollout.openai_agent import REPLY_S, api_key
    from agentrl_envs.output.fail_safe import fail_safe_console
    from agentrl_pipelines.cli.evaluation_view import evaluation_view_for
    from agentrl_pipelines.local.evaluation import evaluate_endpoint
    from agentrl_pipelines.local.evaluation_folder import check_folder
    from agentrl_pipelines.local.run_folder import store_errors

    key, model = api_key(key_env), f"{name} at {url}"
    check_folder(folder, model, None)
    view = evaluation_view_for(fail_safe_console())
    try:
        with store_errors(folder):
            result = evaluate_endpoint(run, url, name, key, view, folder, timeout_s or REPLY_S)
    finally:
        view.close()
    report(run, model, result, folder, paper)


def evaluate_checkpoint(
    run: AgentRLRun, root: Path, which: str, out: Path | None, paper: str | None
) -> None:
    """Evaluate a checkpoint of a run. Without `out` each has a folder of its own."""
    from agentrl_components.storage.scratch import ScratchFolder
    from agentrl_pipelines.local.evaluation import checkpoint_model

    with ScratchFolder() as scratch:
        kept = checkpoint_model(root, which, scratch, run.spec.model)
        folder = out or root / "eval" / f"{kept.iteration:06d}"
        spec = run.spec.model_copy(update={"model": kept.model})
        evaluate_weights(run.model_copy(update={"spec": spec}), kept.url, folder, paper)


def evaluate_weights(run: AgentRLRun, source: str, folder: Path, paper: str | None) -> None:
    """Evaluate the model of the manifest; `source` is its name in the report."""
    from agentrl_envs.output.fail_safe import fail_safe_console
    from agentrl_pipelines.cli.progress_view import view_for
    from agentrl_pipelines.local.evaluation import evaluate_model, settings
    from agentrl_pipelines.local.evaluation_folder import check_folder

    how = settings(run.spec)
    check_folder(folder, source, how)
    view = view_for(fail_safe_console())
    try:
        result = evaluate_model(run, view)
    finally:
        view.close()
    report(run, source, result, folder, paper, how)


def report(
    run: AgentRLRun,
    model: str,
    result: EvaluationResult,
    folder: Path,
    paper: str | None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Print the table, and write eval.json, eval.html and the figure to `folder`. `settings` are
    those of an evaluation of weights."""
    from agentrl_envs.output.fail_safe import fail_safe_console
    from agentrl_pipelines.cli.evaluation_report import EvaluationReport, comparison, show, write
    from agentrl_pipelines.local.run_folder import store_errors

    written = EvaluationReport(
        name=run.metadata.name,
        model=model,
        environments=tuple(environment.name for environment in run.spec.environments),
        actions=run.spec.rollout.actions,
        seed=run.spec.seed,
        settings=dict(settings or {}),
        policy=result.policy,
        random=result.random,
        episodes=result.episodes,
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        replies=result.usage.replies,
        cut_replies=result.usage.cut,
        empty_replies=result.usage.empty,
        resumed=result.resumed,
        paper=comparison(paper, run.spec, model, result.policy) if paper else None,
    )
    console = fail_safe_console()
    show(written, console)  # first: the disk may be full
    with store_errors(folder):
        write(written, folder)
    written_to = f"written to {folder / 'eval.html'} and eval.json"
    console.print(written_to, soft_wrap=True, markup=False, highlight=False)
