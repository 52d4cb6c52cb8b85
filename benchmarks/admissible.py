"""Admissible replies in vLLM: one request a reply beside one request a choice.

    .venv/bin/python benchmarks/admissible.py

Menus are actions of several tokens that share prefixes. Both ways are given the same dialogues, and
alternate; each round begins with an empty prefix cache.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import click
import numpy as np
from report.machine import machine
from workload.models import SIZES, make

from agentrl_components.engines.action_trie import Trie, trie_of
from agentrl_components.engines.engine import Request, Sampling
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions

STOP = 0
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=16, stop=(STOP,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A kind of admissible set."""

    name: str
    actions: int
    verbs: int
    """First tokens."""
    objects: int
    """Tokens that may follow, `length` of them in an action."""
    length: int

    def draw(self, random: np.random.Generator) -> list[tuple[int, ...]]:
        """Different actions."""
        found: set[tuple[int, ...]] = set()
        while len(found) < self.actions:
            verb = 2 + int(random.integers(self.verbs))
            rest = 50 + random.integers(self.objects, size=self.length)
            found.add((verb, *map(int, rest)))
        return sorted(found)


MENUS = (
    Menu(name="few, short", actions=8, verbs=4, objects=20, length=2),
    Menu(name="many, shared prefixes", actions=100, verbs=8, objects=6, length=4),
    Menu(name="many, long", actions=100, verbs=4, objects=4, length=8),
)


Way = Callable[[VllmEngine, Request], Awaitable[int]]


async def by_reply(engine: VllmEngine, request: Request) -> int:
    """The product's way. Returns the number of tokens."""
    return len((await engine.generate(request)).ids)


async def by_choice(engine: VllmEngine, request: Request) -> int:
    """A request for each choice, whose allowed tokens vLLM masks itself; forced tokens are appended
    to the prompt. Returns the number of tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    trie: Trie = trie_of(tuple(map(tuple, request.admissible or ())), STOP)
    reply = list(trie.forced(trie.root))
    while not reply or reply[-1] != STOP:
        node = trie.at(reply)
        params = SamplingParams(
            max_tokens=1,
            seed=(request.seed + len(reply)) % 2**63,
            logprobs=0,
            allowed_token_ids=list(trie.allowed(node)),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        output = await engine._loop.sample([*request.ids, *reply], params)
        reply.append(output.outputs[0].token_ids[0])
        reply += trie.forced(trie.at(reply))
    return len(reply)


async def play(
    engine: VllmEngine,
    way: Way,
    menu: Menu,
    sessions: int,
    turns: int,
    prompt: int,
    seed: int,
) -> int:
    """Dialogues side by side: after each reply an observation of 20 tokens. Returns the number of
    reply tokens."""

    async def dialogue(number: int) -> int:
        random = np.random.default_rng((seed, number))
        ids = list(map(int, random.integers(100, 200, prompt)))
        tokens = 0
        for turn in range(turns):
            actions = menu.draw(random)
            request = Request(
                session=number,
                ids=ids,
                seed=int(random.integers(2**62)),
                sampling=SAMPLING,
                admissible=actions,
            )
            tokens += await way(engine, request)
            ids = [*ids, *actions[turn], *map(int, random.integers(100, 200, 20))]
        return tokens

    return sum(await asyncio.gather(*map(dialogue, range(sessions))))


async def measure(
    folder: Path, rounds: int, sessions: int, turns: int, prompt: int
) -> list[dict[str, object]]:
    """Seconds of both ways for each menu."""
    context = prompt + turns * 40
    engine = VllmEngine(folder, VllmOptions(context=context, replies=sessions))
    rows = []
    for menu in MENUS:
        taken: dict[str, list[float]] = {"choice": [], "reply": []}
        for number in range(-1, rounds):  # the first is a warm-up
            for name, way in (("choice", by_choice), ("reply", by_reply)):
                await engine._loop.call(lambda core: core.reset_prefix_cache())
                began = time.perf_counter()
                run = partial(play, engine, way, menu, sessions, turns, prompt)
                await run(seed=number + 1)
                if number >= 0:
                    taken[name].append(time.perf_counter() - began)
        ratios = [a / b for a, b in zip(taken["choice"], taken["reply"], strict=True)]
        rows.append(
            {
                "menu": asdict(menu),
                "seconds a choice": taken["choice"],
                "seconds a reply": taken["reply"],
                "ratio": median(ratios),
            }
        )
        click.echo(f"{menu.name}: {median(ratios):.2f} times as fast ({ratios})")
    await engine.close()
    return rows


@click.command()
@click.option("--size", type=click.Choice(list(SIZES)), default="2.45M", show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--sessions", default=32, show_default=True)
@click.option("--turns", default=4, show_default=True)
@click.option("--prompt", default=100, show_default=True, help="Tokens of a first prompt.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(__file__).parent / "results" / "admissible.json",
)
def main(size: str, rounds: int, sessions: int, turns: int, prompt: int, out: Path) -> None:
    """Measure and write JSON."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        make(SIZES[size], folder)
        rows = asyncio.run(measure(folder, rounds, sessions, turns, prompt))
    out.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "size": size, "sessions": sessions, "menus": rows}
    out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
