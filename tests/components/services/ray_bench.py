"""Skewed examples, trainers and samplers on a Ray that the tests of this folder share."""

import re
from contextlib import contextmanager

import httpx
import numpy as np
from corridor_jobs import TASKS

from agentrl_components.model.sources import fetch_model
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.spec import Compute
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import PolicyGradient
from agentrl_components.update.packing import Example


def reserved(trainers=1, samplers=1, **more):
    """Half a CPU for each trainer, so that Ray keeps few processes ready."""
    ranks = {"count": trainers, "cpu": "500m", **more}
    return reservations(Compute(ray="embedded", trainers=ranks, samplers={"count": samplers}))


@contextmanager
def connected(**actors):
    """An embedded Ray with room for these actors."""
    import ray

    disconnect = connect("embedded", reserved(**actors))
    try:
        yield ray
    finally:
        disconnect()


def model_folder(spec, folder):
    """The model of a manifest, for the corridor."""
    vocabulary = TASKS.vocabulary()
    return ModelFolder(path=fetch_model(spec.model, vocabulary, 0, folder), vocabulary=vocabulary)


def open_trainers(spec, model, ranks):
    return RayTrainers(spec, model, reserved(ranks), "cpu").open()


def skewed_examples(seed, count=10):
    """Episodes of 4 to 60 tokens, half of them sampled, with random advantages."""
    random = np.random.default_rng(seed)
    out = []
    for length in random.integers(4, 60, count):
        sampled = np.arange(2, length, 2)
        size = len(sampled)
        out.append(
            Example(
                ids=random.integers(0, 20, length).astype(np.int32),
                sampled=sampled,
                allowed=None,
                temperature=1.0,
                columns={
                    "sampler": random.normal(-3.0, 0.1, size).astype(np.float32),
                    "advantage": random.normal(0.0, 1.0, size).astype(np.float32),
                },
            )
        )
    return out


def objective(examples, algorithm):
    total = sum(len(e.sampled) for e in examples)
    return PolicyGradient(
        algorithm=algorithm,
        denominators=Denominators(tokens=total, episodes=len(examples), token_limit=64),
        chunk=16,
        unmoved=True,
    )


def pid(actor):
    """The process of an actor."""
    import ray

    return ray.get(actor.__ray_call__.remote(lambda self: __import__("os").getpid()))


def sessions(url):
    """The sessions that an environment server counts as open."""
    (line,) = re.findall(r"^agentrl_env_sessions{.*} (.*)$", httpx.get(f"{url}/metrics").text, re.M)
    return float(line)


def gradients(trainers):
    """The policy's gradients [whole], gathered from the ranks."""

    def gather(rank):
        return {n: p.grad.full_tensor() for n, p in rank.policy.named_parameters()}

    import ray

    return ray.get([actor.__ray_call__.remote(gather) for actor in trainers._actors])[0]


def train(trainers, spec, updates, seed=0):
    """The gradient norms of some updates on skewed examples."""
    norms = []
    for update in range(updates):
        examples = skewed_examples(seed + update)
        trainers.differentiate(objective(examples, spec.algorithm), examples)
        norms.append(trainers.step("policy", 1e-3))
    return norms
