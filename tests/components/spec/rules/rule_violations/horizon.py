"""Violations of the rules about the horizon schedule, its alarms and the learning rate's."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    (
        "max_turns_never_decrease",
        ("horizon.phases[1].maxTurns=2",),
        ["spec.horizon.phases[1].maxTurns"],
    ),
    (
        "environment_turns_fit_schedule",
        ("environments[0].maxTurns=[3, 4, 5, 6, 7, 8]", "environments[1].maxTurns=[5, 4]"),
        ["spec.environments[0].maxTurns", "spec.environments[1].maxTurns"],
    ),
    (
        "min_iterations_fit_phase",
        ("horizon.advance=success", "horizon.phases[0].minIterations=21"),
        ["spec.horizon.phases[0].minIterations"],
    ),
    (
        "early_end_settings_match_advance",
        (
            "horizon.successAbove=0.5",
            "horizon.plateauDelta=0.1",
            "horizon.phases[0].minIterations=5",
        ),
        [
            "spec.horizon.successAbove",
            "spec.horizon.plateauDelta",
            "spec.horizon.phases[0].minIterations",
        ],
    ),
    (
        "window_fits_phases",
        ("horizon.advance=plateau", "horizon.window=11"),
        ["spec.horizon.window"],
    ),
    (
        "alarms_have_bounds",
        ("horizon.alarms=[{action: stop}]",),
        ["spec.horizon.alarms[0]"],
    ),
    (
        "alarm_windows_fit_run",
        ("horizon.alarms=[{rewardDrop: 0.5, window: 51}]",),
        ["spec.horizon.alarms[0].window"],
    ),
    (
        "reward_std_needs_groups",
        (
            "horizon.alarms=[{rewardStdBelow: 0.01}]",
            "algorithm.name=ppo",
            "rollout.groupSize=1",
        ),
        ["spec.horizon.alarms[0].rewardStdBelow"],
    ),
    (
        "learning_rate_warmup_ends",
        ("update.warmupIterations=50",),
        ["spec.update.warmupIterations"],
    ),
    (
        "critic_warmup_ends",
        ("algorithm.name=ppo", "algorithm.critic.warmupIterations=50"),
        ["spec.algorithm.critic.warmupIterations"],
    ),
]
