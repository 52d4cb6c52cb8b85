"""What a stage does: rollout, update, evaluate, expand. `spec` is the contract and loads pydantic
only."""
