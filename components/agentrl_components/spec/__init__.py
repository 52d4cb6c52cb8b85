"""The public API of the manifest: `AgentRLRun` v1alpha1, its fields, its parser and its rules.

Depends on pydantic and PyYAML only. The CRD is generated from these models.
"""

from agentrl_components.spec.fields.algorithm import Algorithm
from agentrl_components.spec.fields.compute import Compute, Samplers, Trainers
from agentrl_components.spec.fields.environments import Environment, Scaling
from agentrl_components.spec.fields.evaluation import Evaluation
from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase
from agentrl_components.spec.fields.model import Lora, Model, Tiny
from agentrl_components.spec.fields.pods import SecretVariable, Toleration, Volume
from agentrl_components.spec.fields.rollout import Rollout
from agentrl_components.spec.fields.run import GROUP, KIND, VERSION, AgentRLRun, Metadata, RunSpec
from agentrl_components.spec.fields.storage import Storage, Tracking
from agentrl_components.spec.fields.update import Update
from agentrl_components.spec.fields.warmstart import WarmStart
from agentrl_components.spec.parsing.load import dump, flatten, load, parse
from agentrl_components.spec.rules.rule import Mistake
from agentrl_components.spec.rules.validation import local_mistakes, mistakes

__all__ = [
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
    "Samplers",
    "Scaling",
    "SecretVariable",
    "Storage",
    "Tiny",
    "Toleration",
    "Tracking",
    "Trainers",
    "Update",
    "Volume",
    "WarmStart",
    "dump",
    "flatten",
    "load",
    "local_mistakes",
    "mistakes",
    "parse",
]
