"""Violations of the rules about the algorithm, the sampling of replies and the optimizer."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    ("group_baselines_need_groups", ("rollout.groupSize=1",), ["spec.rollout.groupSize"]),
    (
        "critic_settings_need_ppo",
        ("algorithm.gae.lam=0.95", "algorithm.critic.learningRate=1e-4"),
        ["spec.algorithm.gae.lam", "spec.algorithm.critic.learningRate"],
    ),
    ("gigpo_weight_needs_gigpo", ("algorithm.gigpoWeight=0.5",), ["spec.algorithm.gigpoWeight"]),
    *(
        (
            "scale_by_std_needs_scaled_groups",
            (f"algorithm={{name: {name}, scaleByStd: false}}",),
            ["spec.algorithm.scaleByStd"],
        )
        for name in ("ppo", "rloo", "reinforce++", "reinforce++-baseline")
    ),
    *(
        (
            "dropped_groups_need_group_baselines",
            (f"algorithm={{name: {name}, dropZeroVariance: {drops}}}",),
            ["spec.algorithm.dropZeroVariance"],
        )
        for name in ("ppo", "reinforce++")
        for drops in ("true", "false")
    ),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.dropZeroVariance=false"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.name=ppo"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "refill_needs_dropped_groups",
        ("algorithm.refillRounds=2", "algorithm.name=gigpo"),
        ["spec.algorithm.refillRounds"],
    ),
    (
        "kl_estimator_needs_coefficient",
        ("algorithm.kl.estimator=k1",),
        ["spec.algorithm.kl.estimator"],
    ),
    (
        "admissible_actions_need_full_top_p",
        ("rollout.actions=admissible", "rollout.topP=0.9"),
        ["spec.rollout.topP"],
    ),
    (
        "top_p_needs_importance_sampling",
        ("rollout.topP=0.9", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.topP"],
    ),
    (
        "staleness_needs_importance_sampling",
        ("rollout.maxStaleness=1", 'algorithm.importanceSampling.mode="off"'),
        ["spec.rollout.maxStaleness"],
    ),
    (
        "cap_needs_importance_sampling",
        ('algorithm.importanceSampling={mode: "off", cap: 3}',),
        ["spec.algorithm.importanceSampling.cap"],
    ),
    (
        "importance_mask_needs_range",
        ("algorithm.importanceSampling={mode: mask, cap: 1}",),
        ["spec.algorithm.importanceSampling.cap"],
    ),
    ("final_share_needs_decay", ("update.finalShare=0",), ["spec.update.finalShare"]),
]
