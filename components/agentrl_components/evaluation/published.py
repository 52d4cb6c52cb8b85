"""Published results of AgentGym-RL (arXiv 2509.08755) to compare an evaluation with.

Numbers are success in percent, from the tables of the paper. Its 27 tasks are the categories
below, 5 + 7 + 4 + 6 + 5; WebArena's GitLab and Reddit are reported together, which leaves 26 rows.
A category has as few as 3 tasks, of which one is 33 points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BASE, AGENTGYM_RL, SCALING = "Qwen2.5-7B-Instruct", "AgentGym-RL-7B", "ScalingInter-7B"
MODELS = (BASE, AGENTGYM_RL, SCALING)
"""The models whose results the paper gives for each category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The paper's results in one family of tasks."""

    family: str
    max_turns: int
    """Turn limit of the released evaluation script."""
    paper_turns: int
    """Turn limit that the paper names (appendix B)."""
    counts: Mapping[str, int]
    """Test tasks by category."""
    categories: Mapping[str, tuple[float, float, float]]
    """Success by category, of `MODELS`."""
    overall: Mapping[str, float]
    """Success over all tasks, by model."""
    remark: str = ""
    """What makes the numbers hard to compare."""

    @property
    def conditions(self) -> str:
        """Model, prompt and turn limit of the published numbers, in one sentence."""
        return (
            f"Published: {', '.join(MODELS)}; ReAct prompt of AgentGym as a user message; "
            f"{self.max_turns} turns in the released script, {self.paper_turns} in the paper; "
            f"temperature 1, one sample; {sum(self.counts.values())} tasks."
            + (f" {self.remark}" if self.remark else "")
        )


def _overall(*percent: float) -> Mapping[str, float]:
    names = ("Qwen2.5-3B-Instruct", BASE, "AgentGym-RL-3B", AGENTGYM_RL, SCALING)
    return dict(zip((*names, "GPT-4o", "Gemini-2.5-Pro", "o3"), percent, strict=True))


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        each.family: each
        for each in (
            Published(
                family="webarena",
                max_turns=15,
                paper_turns=15,
                counts={"Shopping": 15, "CMS": 15, "Maps": 10, "GitLab & Reddit": 10},
                categories={
                    "Shopping": (14.29, 20.00, 33.33),
                    "CMS": (6.67, 33.33, 26.67),
                    "Maps": (0.00, 0.00, 20.00),
                    "GitLab & Reddit": (16.67, 30.00, 20.00),
                },
                overall=_overall(10.00, 9.76, 18.00, 22.00, 26.00, 16.00, 28.00, 34.00),
                remark="An episode at the turn limit is not graded. 50 of WebArena's 812 tasks.",
            ),
            Published(
                family="search",
                max_turns=30,
                paper_turns=4,
                counts={
                    **dict.fromkeys(("NQ", "TriviaQA", "PopQA", "HotpotQA", "2Wiki"), 50),
                    "Musique": 100,
                    "Bamboogle": 50,
                },
                categories={
                    "NQ": (18.00, 44.00, 52.00),
                    "TriviaQA": (54.00, 64.00, 70.00),
                    "PopQA": (20.00, 32.00, 46.00),
                    "HotpotQA": (18.00, 40.00, 42.00),
                    "2Wiki": (6.00, 36.00, 44.00),
                    "Musique": (4.00, 15.00, 14.00),
                    "Bamboogle": (26.00, 26.00, 24.00),
                },
                overall=_overall(13.50, 18.75, 25.75, 34.00, 38.25, 26.75, 36.50, 49.50),
                remark="A wrong answer does not end an episode.",
            ),
            Published(
                family="textcraft",
                max_turns=30,
                paper_turns=20,
                counts={"Depth 1": 31, "Depth 2": 41, "Depth 3": 25, "Depth 4": 3},
                categories={
                    "Depth 1": (80.65, 100.00, 100.00),
                    "Depth 2": (41.46, 97.56, 97.56),
                    "Depth 3": (0.00, 72.00, 76.00),
                    "Depth 4": (0.00, 0.00, 33.33),
                },
                overall=_overall(14.00, 42.00, 75.00, 89.00, 91.00, 83.00, 94.00, 93.00),
                remark="The goals behind the ids depend on a folder's order; the depths do not.",
            ),
            Published(
                family="babyai",
                max_turns=20,
                paper_turns=20,
                counts={"GoTo": 55, "Pickup": 15, "AOD": 5, "Find": 5, "Room": 5, "SLoc": 5},
                categories={
                    "GoTo": (70.91, 100.00, 100.00),
                    "Pickup": (66.67, 93.33, 93.33),
                    "AOD": (60.00, 100.00, 100.00),
                    "Find": (80.00, 60.00, 80.00),
                    "Room": (60.00, 60.00, 80.00),
                    "SLoc": (20.00, 60.00, 100.00),
                },
                overall=_overall(52.22, 66.67, 93.33, 92.22, 96.67, 86.67, 87.77, 94.44),
                remark="Upstream counts a reward above 0 as a success and revokes late successes.",
            ),
            Published(
                family="sciworld",
                max_turns=30,
                paper_turns=20,
                counts={
                    "Measure": 53,
                    "Test-Cond": 83,
                    "Find": 44,
                    "Chem-Mix": 5,
                    "Lifespan": 15,
                },
                categories={
                    "Measure": (1.89, 24.53, 33.96),
                    "Test-Cond": (0.00, 59.04, 55.42),
                    "Find": (0.00, 65.91, 88.64),
                    "Chem-Mix": (0.00, 0.00, 0.00),
                    "Lifespan": (13.33, 66.67, 73.33),
                },
                overall=_overall(1.00, 1.50, 22.50, 50.50, 57.00, 21.00, 12.50, 41.50),
                remark="Upstream's score runs from -100 to 100.",
            ),
        )
    }
)
"""Keyed by family."""


def row_name(category: str) -> str:
    """A category of an evaluation (`babyai/GoTo`, `textcraft/depth 1`, `nq/2 hops`) as the paper
    writes it, or as it is. An environment named like a row stands for the row."""
    environment, _, name = category.partition("/")
    known = {_plain(row): row for each in PUBLISHED.values() for row in each.counts}
    known["twowiki"] = "2Wiki"  # names of environments start with a letter
    return known.get(_plain(name)) or known.get(_plain(environment)) or category


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
