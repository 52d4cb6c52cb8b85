"""The keys in the store of a run. No other module builds keys.

    run.json                            the manifest as it was started
    state.json                          progress of the run; replaced as it changes
    tracker.json                        ID of the MLflow run, or the tag by which it is found
    model.json                          commit or digest of the model that the run began with
    iterations/000120.json              record of an iteration: metrics, horizon, decision
    trajectories/000120-000119.episodes episodes of iteration 120, sampled by policy 119, if
                                        rollout is another process or samples ahead
    policy/000120/                      weights after 120 iterations, if rollout is another process
    heartbeats/<role>                   changes while the process of that role is alive; absent
                                        before it starts in an attempt at a phase
    phases/02/<name>                    environment fingerprints and decision of a phase
    evaluations/<name>.json             result of an evaluation: random, before, after, or
                                        iteration-000120 after 120 iterations, or
                                        iteration-000120-restored if a rollback then
                                        restored the weights that it evaluates
    evaluations/<name>.episodes         some of its episodes, for display
    checkpoints/000120/                 a model folder that transformers can load
    checkpoints/000120/trainer/         further state that training needs to resume
    checkpoints/000120/manifest.json    written last: sizes and SHA-256 of all files

Keys are functions of (phase, iteration) only, so repeated work writes the same keys. Numbers have
leading zeros, so that the order of keys is the order of iterations.
"""

from __future__ import annotations

RUN = "run.json"
STATE = "state.json"
TRACKER = "tracker.json"
MODEL = "model.json"
CHECKPOINTS = "checkpoints/"
ITERATIONS = "iterations/"
TRAJECTORIES = "trajectories/"
POLICIES = "policy/"
EVALUATIONS = "evaluations/"
BEFORE = "before"
"""Name of the evaluation before training."""
AFTER = "after"
"""Name of the evaluation at the end of the run."""
HEARTBEATS = "heartbeats/"
PHASES = "phases/"
OWN = (
    RUN,
    STATE,
    TRACKER,
    MODEL,
    CHECKPOINTS,
    ITERATIONS,
    TRAJECTORIES,
    POLICIES,
    EVALUATIONS,
    HEARTBEATS,
    PHASES,
)
"""Prefixes of all keys of a run."""
MANIFEST = "manifest.json"
FINGERPRINTS = "environments.json"
"""File of a phase: what identifies the task sets of its environments."""
DECISION = "decision.json"
"""File of a phase: the decision about what follows."""
PLAYED = "played.episodes"
"""File of a phase: episodes of its last iteration, for display."""
TRAINER = "trainer/"
"""Prefix of the files in a checkpoint that are not part of the model folder."""
_RESTORED = "-restored"


def iteration(number: int) -> str:
    """Record of an iteration."""
    return f"{ITERATIONS}{number:06d}.json"


def trajectories(number: int, policy: int) -> str:
    """Episodes of an iteration that `policy` sampled."""
    return f"{TRAJECTORIES}{number:06d}-{policy:06d}.episodes"


def iteration_and_policy(key: str) -> tuple[int, int]:
    """The (iteration, policy) of a key under `TRAJECTORIES`."""
    number, policy = key.removeprefix(TRAJECTORIES).removesuffix(".episodes").split("-")
    return int(number), int(policy)


def policy(number: int, name: str) -> str:
    """A file of the policy after `number` iterations."""
    return f"{POLICIES}{number:06d}/{name}"


def heartbeat(role: str) -> str:
    """The heartbeat of the process in `role`."""
    return f"{HEARTBEATS}{role}"


def phase(number: int, name: str) -> str:
    """A file of one phase."""
    return f"{PHASES}{number:02d}/{name}"


def evaluation(name: str) -> str:
    """Result of an evaluation."""
    return f"{EVALUATIONS}{name}.json"


def evaluation_name(key: str) -> str:
    """The name of the evaluation of a key under `EVALUATIONS`."""
    return key.removeprefix(EVALUATIONS).partition(".")[0]


def evaluation_after(number: int, *, restored: bool = False) -> str:
    """The name of the evaluation after `number` iterations; `restored`: of the weights that a
    rollback has restored after them, which are not those that the last iteration ended with."""
    return f"iteration-{number:06d}{_RESTORED if restored else ''}"


def evaluation_number(name: str) -> int:
    """The number of iterations before the evaluation with this name; -1 for other names."""
    number = name.removeprefix("iteration-").removesuffix(_RESTORED)
    return int(number) if number.isdigit() and name.startswith("iteration-") else -1


def episodes(name: str) -> str:
    """Episodes of an evaluation, for display."""
    return f"{EVALUATIONS}{name}.episodes"


def checkpoint(number: int, name: str = "") -> str:
    """A file of the checkpoint after `number` iterations. Without a name, its prefix."""
    return f"{CHECKPOINTS}{number:06d}/{name}"


def checkpoint_number(key: str) -> int:
    """The iteration of a key under `CHECKPOINTS`; -1 for other keys."""
    number = key.removeprefix(CHECKPOINTS).split("/", 1)[0]
    return int(number) if number.isdigit() and key.startswith(CHECKPOINTS) else -1
