"""`agentrl eval`: how well any weights, or any endpoint, do on held-out tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from agentrl_components.run.progress import View
    from agentrl_components.spec import AgentRLRun
    from agentrl_pipelines.local.evaluation import EvaluationResult


@click.command("eval")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--model", metavar="SOURCE", help="Weights, as spec.model.source names them.")
@click.option(
    "--root", type=click.Path(path_type=Path), help="Take a checkpoint of the run in this folder."
)
@click.option("--checkpoint", metavar="N|best|last", help="With --root: which.  [default: best]")
@click.option("--openai", "url", metavar="URL", help="An OpenAI-compatible endpoint, up to /v1.")
@click.option("--model-name", metavar="NAME", help="With --openai: the model to ask for.")
@click.option(
    "--key-env",
    metavar="VAR",
    help="With --openai: the environment variable with the key.  [default: OPENAI_API_KEY]",
)
@click.option("--tasks", type=int, help="Held-out tasks.")
@click.option("--samples", type=int, help="Tries at each task; above 1, pass@k is told.")
@click.option("--max-turns", type=int, help="Turns allowed.")
@click.option("--temperature", type=float, help="Of sampling; 0 is greedy.")
@click.option("--sweep", metavar="N,N,...", help="Also with so many turns allowed.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where eval.json and eval.html go.  [default: eval/ in the run's folder]",
)
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field.")
def evaluate(
    file: str,
    model: str | None,
    root: Path | None,
    checkpoint: str | None,
    url: str | None,
    model_name: str | None,
    key_env: str | None,
    tasks: int | None,
    samples: int | None,
    max_turns: int | None,
    temperature: float | None,
    sweep: str | None,
    out: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Evaluate a model in the environments that FILE names, and train nothing.

    The model is FILE's own, --model, a checkpoint of --root, or one behind --openai."""
    given = {
        "model.source": model,
        "evaluation.tasks": tasks,
        "evaluation.samples": samples,
        "evaluation.maxTurns": max_turns,
        "evaluation.temperature": temperature,
        "evaluation.turnSweep": None if sweep is None else f"[{sweep}]",
    }
    fields = [f"{field}={value}" for field, value in given.items() if value is not None]
    check_source(model, root, checkpoint, url, model_name, key_env)
    with exit_on_error():
        from agentrl_components.errors import SpecError
        from agentrl_components.spec.parsing.load import load
        from agentrl_components.spec.rules.validation import local_mistakes

        run = load(file, (*overrides, *fields))
        mistakes = [str(mistake) for mistake in local_mistakes(run)]
        if mistakes:
            raise SpecError(mistakes)
        folder = out or (root or Path("runs") / run.metadata.name) / "eval"
        if url is not None and model_name is not None:
            ask(run, url, model_name, key_env, folder)
        elif root is not None:
            look_back(run, root, checkpoint or "best", folder)
        else:
            play(run, run.spec.model.source, folder)


def check_source(
    model: str | None,
    root: Path | None,
    checkpoint: str | None,
    url: str | None,
    model_name: str | None,
    key_env: str | None,
) -> None:
    """One source at most, and its options only with it."""
    named = {"--model": model, "--root": root, "--openai": url}
    several = [name for name, value in named.items() if value is not None]
    if len(several) > 1:
        raise click.UsageError(f"{several[1]}: one model at a time; leave {several[0]} out")
    if checkpoint is not None and root is None:
        raise click.UsageError("--checkpoint: of which run? give --root too")
    if url is not None and model_name is None:
        raise click.UsageError("--model-name: is missing; name the model to ask the endpoint for")
    for name, value in (("--model-name", model_name), ("--key-env", key_env)):
        if value is not None and url is None:
            raise click.UsageError(f"{name}: has no effect without --openai; give its URL too")


def ask(run: AgentRLRun, url: str, name: str, key_env: str | None, folder: Path) -> None:
    """Evaluate an endpoint."""
    from agentrl_components.rollout.openai_agent import api_key
    from agentrl_pipelines.local.evaluation import evaluate_endpoint

    key = api_key(key_env)
    said = f"{name} at {url}"
    tell(run, said, "free", folder, lambda view: evaluate_endpoint(run, url, name, key, view))


def look_back(run: AgentRLRun, root: Path, which: str, folder: Path) -> None:
    """Evaluate a checkpoint of a run."""
    from tempfile import TemporaryDirectory

    from agentrl_pipelines.local.evaluation import checkpoint_model

    with TemporaryDirectory(prefix="agentrl-") as scratch:
        model, address = checkpoint_model(root, which, Path(scratch), run.spec.model)
        spec = run.spec.model_copy(update={"model": model})
        play(run.model_copy(update={"spec": spec}), address, folder)


def play(run: AgentRLRun, source: str, folder: Path) -> None:
    """Evaluate weights."""
    from agentrl_pipelines.local.evaluation import evaluate_model

    actions = run.spec.rollout.actions
    tell(run, source, actions, folder, lambda view: evaluate_model(run, view))


def tell(
    run: AgentRLRun,
    model: str,
    actions: str,
    folder: Path,
    find: Callable[[View], EvaluationResult],
) -> None:
    """Find out, print the table and write the files."""
    from rich.console import Console

    from agentrl_pipelines.cli.evaluation_report import Scorecard, show, write
    from agentrl_pipelines.cli.progress_view import view_for
    from agentrl_pipelines.local.run_folder import store_errors

    console = Console()
    view = view_for(console)
    try:
        found = find(view)
    finally:
        view.close()
    card = Scorecard(
        name=run.metadata.name,
        model=model,
        environments=tuple(environment.name for environment in run.spec.environments),
        actions=actions,
        seed=run.spec.seed,
        policy=found.policy,
        random=found.random,
        episodes=found.episodes,
    )
    with store_errors(folder):
        write(card, folder)
    show(card, folder, console)
