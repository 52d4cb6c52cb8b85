"""Violations of the rules about warm starts."""

from rule_violations.manifest import Violation

ROOMS = "environments=[{name: rooms, builtin: babyai}]"

VIOLATIONS: list[Violation] = [
    (
        "trajectories_match_algorithm",
        ("warmStart.algorithm=sft",),
        ["spec.warmStart.trajectories"],
    ),
    (
        "trajectories_match_algorithm",
        ("warmStart={algorithm: hindsight, trajectories: 'file:///a.jsonl'}", ROOMS),
        ["spec.warmStart.trajectories"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: hindsight, rounds: 3}", ROOMS),
        ["spec.warmStart.rounds"],
    ),
    (
        "warm_start_fields_match_algorithm",
        ("warmStart={algorithm: sft, trajectories: 'file:///a.jsonl', episodes: 5}",),
        ["spec.warmStart.episodes"],
    ),
    (
        "hindsight_needs_goals_that_can_be_rewritten",
        (
            "warmStart={algorithm: hindsight}",
            "environments=[{name: rooms, builtin: babyai}, {name: mazes, builtin: maze}]",
        ),
        ["spec.warmStart.algorithm"],
    ),
]
