"""What a run does, step by step. Each stage is safe to start again: what is done already is not
done twice. A module each, so that a stage loads no more than it needs."""

NAMES = ("provision", "train", "rollout", "update", "evaluate", "expand", "settle")
"""Stages as processes, in the order of a phase: `train` is rollout and update in one."""
