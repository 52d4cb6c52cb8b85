"""docs/metrics.md explains every metric that the code records, and no other."""

from __future__ import annotations

import re

from repository import PACKAGES, ROOT

PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
SOURCES = PACKAGES["agentrl_components"]
KIND = "train|update|rollout|heldout|horizon|seconds"


def recorded() -> set[str]:
    """Metrics that are named in the source: by their whole name, by the sums of an objective, and
    by the stages of an iteration whose time is taken."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    named = {
        name.replace("{name}", "NAME")
        for text in texts
        for name in re.findall(rf'"((?:{KIND})/(?:\{{name\}}/)?[a-z_]+)"', text)
    }
    objectives = (SOURCES / "update/objectives.py").read_text(encoding="utf-8")
    sums = set(
        re.findall(r'sums\["(\w+)"\]|^ +"(\w+)": \(?[\w.]+_S|\{"(\w+)": loss', objectives, re.M)
    )
    counts = {"update/fresh", "update/stale"}  # which the sums are divided by
    of_updates = {f"update/{name}" for names in sums for name in names if name} - counts
    training = (SOURCES / "stages/train.py").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"seconds = \{(.+)\}", training)
    timed = {f"seconds/{name}" for name in re.findall(r'"(\w+)":', seconds)}
    return named | of_updates | timed


def test_the_page_explains_the_metrics_that_are_recorded():
    explained = set(re.findall(rf"`((?:{KIND})/(?:NAME/)?[a-z_]+)`", PAGE))
    assert {"update/entropy", "update/value_loss", "train/NAME/score"} <= recorded()
    assert explained == recorded()
