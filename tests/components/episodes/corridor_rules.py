"""Rules of play for trajectories that tests construct by hand."""

from agentrl_components.rollout.episode import Rules

RULES = Rules(
    max_turns=8,
    context=500,
    max_tokens_per_turn=4,
    temperature=1.0,
    top_p=1.0,
    admissible=False,
    seed=3,
    purpose="train/0",
)
