"""BabyAI as AgentGym plays it (`compat: agentgym`): its menu, its paths and its words, so that
results can be compared with published ones. `docs/upstream-defects.md` lists what differs."""
