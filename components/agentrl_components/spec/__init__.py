"""The contract: `AgentRLRun` v1alpha1. Pydantic only; the CRD is generated from it."""

from agentrl_components.spec.algorithm import COMPARES_A_GROUP, Algorithm
from agentrl_components.spec.compute import Compute, SecretVariable, Toleration
from agentrl_components.spec.environments import Environment
from agentrl_components.spec.evaluation import Evaluation
from agentrl_components.spec.horizon import Alarm, Horizon, Phase
from agentrl_components.spec.load import dump, flatten, load, parse
from agentrl_components.spec.model import Lora, Model, Tiny
from agentrl_components.spec.rollout import Rollout
from agentrl_components.spec.rules import Mistake, local_mistakes, mistakes
from agentrl_components.spec.run import GROUP, KIND, VERSION, AgentRLRun, Metadata, RunSpec
from agentrl_components.spec.storage import Storage, Tracking
from agentrl_components.spec.update import Update
from agentrl_components.spec.warmstart import WarmStart

__all__ = [
    "COMPARES_A_GROUP",
    "GROUP",
    "KIND",
    "VERSION",
    "AgentRLRun",
    "Alarm",
    "Algorithm",
    "Compute",
    "Environment",
    "Evaluation",
    "Horizon",
    "Lora",
    "Metadata",
    "Mistake",
    "Model",
    "Phase",
    "Rollout",
    "RunSpec",
    "SecretVariable",
    "Storage",
    "Tiny",
    "Toleration",
    "Tracking",
    "Update",
    "WarmStart",
    "dump",
    "flatten",
    "load",
    "local_mistakes",
    "mistakes",
    "parse",
]
