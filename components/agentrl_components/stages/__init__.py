"""What a run does, step by step. Each stage is safe to start again: what is done already is not
done twice. A module each, so that a stage loads no more than it needs."""
