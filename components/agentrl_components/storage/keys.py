"""Where everything is in the store of a run: one function per thing, nothing else names a key.

    run.json                            the manifest as it was started
    state.json                          where the run is; the one pointer that moves
    tracker.json                        which MLflow run shows it
    iterations/000120.json              one iteration: metrics, horizon, decision
    trajectories/000120-000119.episodes the episodes of iteration 120, played by policy 119, where
                                        another process plays or they are played ahead
    policy/000120/                      policy 120, the weights after 120 iterations, where another
                                        process plays
    heartbeats/<role>                   changes while the process of that role is alive
    phases/02/<name>                    lineage and decision of a phase
    evaluations/<name>.json             what an evaluation found: random, before, after, and
                                        iteration-000120 after 120 iterations
    evaluations/<name>.episodes         a few of the episodes it played, for people
    checkpoints/000120/                 a model folder that transformers can load, and
    checkpoints/000120/trainer/         what else training needs to go on, and
    checkpoints/000120/manifest.json    written last: sizes and sha256 of all of it

Names are functions of (phase, iteration) alone, so doing something twice writes the same key.
Numbers have leading zeros, so the order of keys is the order of iterations.
"""

from __future__ import annotations

RUN = "run.json"
STATE = "state.json"
TRACKER = "tracker.json"
CHECKPOINTS = "checkpoints/"
ITERATIONS = "iterations/"
TRAJECTORIES = "trajectories/"
POLICIES = "policy/"
EVALUATIONS = "evaluations/"
HEARTBEATS = "heartbeats/"
PHASES = "phases/"
OWN = (
    RUN,
    STATE,
    TRACKER,
    CHECKPOINTS,
    ITERATIONS,
    TRAJECTORIES,
    POLICIES,
    EVALUATIONS,
    HEARTBEATS,
    PHASES,
)
"""What every key of a run starts with."""
MANIFEST = "manifest.json"
LINEAGE = "environments.json"
"""Of a phase: what its worlds are."""
DECISION = "decision.json"
"""Of a phase: what follows it."""
PLAYED = "played.episodes"
"""Of a phase: episodes of its last iteration, for people."""
TRAINER = "trainer/"
"""In a checkpoint: the files under this are not part of the model folder."""


def iteration(number: int) -> str:
    """The record of one iteration."""
    return f"{ITERATIONS}{number:06d}.json"


def trajectories(number: int, policy: int) -> str:
    """Episodes of one iteration, by the policy that played it."""
    return f"{TRAJECTORIES}{number:06d}-{policy:06d}.episodes"


def played(key: str) -> tuple[int, int]:
    """The iteration and the policy of a key under `TRAJECTORIES`."""
    number, policy = key.removeprefix(TRAJECTORIES).removesuffix(".episodes").split("-")
    return int(number), int(policy)


def policy(number: int, name: str) -> str:
    """A file of the weights after `number` iterations."""
    return f"{POLICIES}{number:06d}/{name}"


def heartbeat(role: str) -> str:
    """The heartbeat of the process in `role`."""
    return f"{HEARTBEATS}{role}"


def phase(number: int, name: str) -> str:
    """A file of one phase."""
    return f"{PHASES}{number:02d}/{name}"


def evaluation(name: str) -> str:
    """What an evaluation found."""
    return f"{EVALUATIONS}{name}.json"


def evaluation_after(number: int) -> str:
    """The name of the evaluation after `number` iterations."""
    return f"iteration-{number:06d}"


def evaluation_number(name: str) -> int:
    """The iterations that were done at the evaluation of this name; -1: it has another."""
    number = name.removeprefix("iteration-")
    return int(number) if number.isdigit() and name.startswith("iteration-") else -1


def episodes(name: str) -> str:
    """Episodes that an evaluation played and kept for people to read."""
    return f"{EVALUATIONS}{name}.episodes"


def checkpoint(number: int, name: str = "") -> str:
    """A file of the checkpoint after `number` iterations; without a name, the prefix of all."""
    return f"{CHECKPOINTS}{number:06d}/{name}"


def checkpoint_number(key: str) -> int:
    """The iteration that a key under `CHECKPOINTS` belongs to; -1: none, it is not ours."""
    number = key.removeprefix(CHECKPOINTS).split("/", 1)[0]
    return int(number) if number.isdigit() and key.startswith(CHECKPOINTS) else -1
