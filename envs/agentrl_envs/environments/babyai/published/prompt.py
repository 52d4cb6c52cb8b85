"""The opening of a conversation in AgentGym's form: a user message, a reply, then the first
observation. The words are ours."""

from __future__ import annotations

from agentrl_envs.env import opening_exchange
from agentrl_envs.environments.babyai.published.menu import PICKUP
from agentrl_envs.environments.babyai.text_agentgym import INSTRUCTIONS

PROMPT = opening_exchange(INSTRUCTIONS.format(take=PICKUP), "OK. I will follow the instructions.")
