"""Exact match and F1 of an answer, with SQuAD's normalisation (Rajpurkar et al. 2016,
arXiv 1606.05250)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Lower case, without punctuation, articles and repeated white space; in this order."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """1 if the answer equals one of those accepted, both normalised; else 0."""
    return float(normalise(answer) in {normalise(each) for each in accepted})


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The largest F1 of the answer's words against those of one accepted answer."""
    return max(_f1(normalise(answer).split(), normalise(each).split()) for each in accepted)


def _f1(found: list[str], wanted: list[str]) -> float:
    if not found or not wanted:
        return float(found == wanted)
    common = (Counter(found) & Counter(wanted)).total()
    return 2 * common / (len(found) + len(wanted))
