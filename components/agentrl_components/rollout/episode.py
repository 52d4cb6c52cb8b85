"""Plays one episode: the agent and the environment take turns.

Tokens are appended at the end of each turn and never changed afterwards. No episode waits for
another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.engines.engine import Engine, Generation, Request, Sampling, Stop
from agentrl_components.rollout.token_buffer import TokenBuffer
from agentrl_components.schedule.seeds import derive
from agentrl_components.trajectory.record import CONTEXT_FULL, Ending, Trajectory, Turn
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.world import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the episodes of one request are played."""

    max_turns: int
    """Turn limit of an episode, in environments without one of their own."""
    context: int
    """Maximum tokens of an episode."""
    max_tokens_per_turn: int
    temperature: float
    top_p: float
    admissible: bool
    """Restrict replies to the actions that the environment admits."""
    seed: int
    """Seed of the run."""
    purpose: str
    """Part of every seed, so that training and evaluation share no random stream."""
    turn_limits: Mapping[str, int] = field(default_factory=dict)
    """Turn limits of single environments, by name."""

    def turns(self, environment: str) -> int:
        """The turn limit of an episode in `environment`."""
        return self.turn_limits.get(environment, self.max_turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One episode to play."""

    environment: str
    instructions: str
    task: Task
    group: int
    sample: int
    iteration: int


@dataclass(slots=True)
class EpisodeState:
    """An episode in progress."""

    buffer: TokenBuffer = field(default_factory=TokenBuffer)
    """Stays empty if the agent replies in text without token ids."""
    turns: list[Turn] = field(default_factory=list)
    ending: Ending = Ending.TRUNCATED
    success: bool = False
    raw_score: float = 0.0
    note: str = ""
    tells_states: bool = False
    """Whether a step had the state after it."""
    _began: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the episode began, to the microsecond."""
        return round(time.monotonic() - self._began, 6)

    def add(self, turn: Turn, step: Step) -> bool:
        """Append a turn and take over the outcome of its step. True: the episode is over."""
        self.turns.append(turn)
        self.success = step.success
        self.raw_score = step.raw_score
        self.tells_states |= step.state is not None
        if step.terminated:
            self.ending = Ending.TERMINATED
        return step.terminated or step.truncated


@dataclass(frozen=True, slots=True)
class Shown:
    """What the agent sees before it replies."""

    observation: Observation
    state: str | None


async def play(
    job: Job, rules: Rules, number: int, session: Session, engine: Engine, dialogue: Dialogue
) -> Trajectory:
    """Play `job` to its end and return its trajectory. `number` is the engine's session id.

    Raises `SessionError` if the environment fails and `EngineError` if the sampler fails; the
    caller replays the episode or records it as lost."""
    played = EpisodeState()
    try:
        await _turns(job, rules, number, session, engine, dialogue, played)
    finally:
        await engine.release(number)
    if not played.tells_states:
        played.turns[:1] = [replace(turn, state=None) for turn in played.turns[:1]]
    return trajectory(job, rules, played)


async def _turns(
    job: Job,
    rules: Rules,
    number: int,
    session: Session,
    engine: Engine,
    dialogue: Dialogue,
    played: EpisodeState,
) -> None:
    # Every episode of a task starts in the same state, so the task id identifies it. An environment
    # does not tell its hash, so that a return to it is a new state.
    seen = Shown(await session.reset(job.task), job.task.id)
    buffer = played.buffer
    buffer.open(dialogue.opening(job.instructions, seen.observation.text))
    limit = rules.turns(job.environment)
    for turn in range(limit):
        room = rules.context - len(buffer.ids)
        if room <= 0:
            played.note = f"{CONTEXT_FULL} of {rules.context} tokens"
            return
        started_s = played.seconds()
        asked = request(job, rules, number, turn, room, buffer, seen.observation, dialogue)
        reply = await engine.generate(asked)
        span = buffer.reply(reply)
        said = spoken(reply, asked, seen.observation, dialogue)
        step = await session.step(said if asked.admissible else dialogue.action(said))
        times = (started_s, played.seconds())
        if played.add(_turn(reply, span, said, seen, step, times), step):
            return
        seen = Shown(step.observation, step.state)
        if turn + 1 < limit:
            buffer.observe(dialogue.following(reply.ids, seen.observation.text))


def spoken(reply: Generation, asked: Request, observation: Observation, dialogue: Dialogue) -> str:
    """The text of a reply. One that was restricted to the admissible actions of `observation`, and
    was not cut off, is the action as the environment lists it, also where the prompt asks for
    thoughts: a tokenizer may normalise a text, so that its ids do not give it back."""
    if asked.admissible is not None and reply.stop is Stop.STOP:
        ids = tuple(reply.ids[:-1])
        for action, listed in zip(observation.admissible or (), asked.admissible, strict=True):
            if tuple(listed) == ids:
                return action
    return dialogue.text(reply.ids)


def _turn(
    reply: Generation,
    span: tuple[int, int],
    said: str,
    seen: Shown,
    step: Step,
    times: tuple[float, float],
) -> Turn:
    return Turn(
        start=span[0],
        end=span[1],
        reward=step.reward,
        wellformed=step.wellformed,
        action=said,
        observation=seen.observation.text,
        version=reply.version,
        state=seen.state,
        achieved=step.achieved,
        started_s=times[0],
        duration_s=times[1] - times[0],
        versions=reply.versions or (),
        success=step.success,
    )


def request(
    job: Job,
    rules: Rules,
    number: int,
    turn: int,
    room: int,
    buffer: TokenBuffer,
    observation: Observation,
    dialogue: Dialogue,
) -> Request:
    """The engine request for one reply. Its seed depends on what the reply is for, not on when
    it is sampled."""
    admissible = None
    if rules.admissible and observation.admissible:
        admissible = [dialogue.encode_action(action) for action in observation.admissible]
    path = (rules.purpose, job.iteration, job.environment, job.task.id, job.sample, turn)
    return Request(
        session=number,
        ids=buffer.ids,
        seed=derive(rules.seed, *path),
        sampling=Sampling(
            temperature=rules.temperature,
            top_p=rules.top_p,
            max_tokens=min(rules.max_tokens_per_turn, room),
            stop=dialogue.stop,
        ),
        admissible=admissible,
    )


def trajectory(job: Job, rules: Rules, played: EpisodeState) -> Trajectory:
    """The trajectory of an episode, as it is trained on."""
    return Trajectory(
        environment=job.environment,
        task=job.task.id,
        category=job.task.category,
        group=job.group,
        sample=job.sample,
        iteration=job.iteration,
        turns=tuple(played.turns),
        ending=played.ending,
        score=sum(turn.reward for turn in played.turns),
        raw_score=played.raw_score,
        success=played.success,
        max_turns=rules.turns(job.environment),
        temperature=rules.temperature,
        note=played.note,
        **played.buffer.arrays(),
    )


def lost_trajectory(job: Job, rules: Rules, note: str) -> Trajectory:
    """The trajectory of an episode lost to infrastructure: no tokens, no score, a reason."""
    return trajectory(job, rules, EpisodeState(ending=Ending.LOST, note=note))
