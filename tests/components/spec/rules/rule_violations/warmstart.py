"""Violations of the rules about warm starts."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "trajectories_match_algorithm",
        ("warmStart.algorithm=sft",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "trajectories_match_algorithm",
        ("warmStart={algorithm: hindsight, trajectories: 'file:///a.jsonl'}",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: hindsight, rounds: 3}",),
        ["spec.warmStart.rounds"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: sft, trajectories: 'file:///a.jsonl', episodes: 5}",),
        ["spec.warmStart.episodes"],
    ),
]
