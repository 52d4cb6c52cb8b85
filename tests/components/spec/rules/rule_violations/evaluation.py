"""Violations of the rules about evaluation."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    ("turn_sweep_increases", ("evaluation.turnSweep=[4, 2]",), ["spec.evaluation.turnSweep[1]"]),
    ("turn_sweep_increases", ("evaluation.turnSweep=[4, 4]",), ["spec.evaluation.turnSweep[1]"]),
    ("turn_sweep_is_bounded", ("evaluation.turnSweep=[8, 81]",), ["spec.evaluation.turnSweep[1]"]),
    (
        "samples_need_temperature",
        ("evaluation.samples=4", "evaluation.temperature=0"),
        ["spec.evaluation.samples"],
    ),
    (
        "vllm_needs_a_temperature_it_samples_with",
        ("rollout.engine=vllm", "evaluation.temperature=0.001"),
        ["spec.evaluation.temperature"],
    ),
]
