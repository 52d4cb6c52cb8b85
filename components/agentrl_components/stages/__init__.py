"""What a run does, step by step. Each stage takes the run's context and is safe to start again:
what is done already is not done twice."""

from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.expand import expand
from agentrl_components.stages.imitate import imitate
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train

__all__ = ["evaluate", "expand", "imitate", "provision", "train"]
