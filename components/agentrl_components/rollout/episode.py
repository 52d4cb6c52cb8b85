"""One episode: an agent and a world, turn about.

Nothing here waits for another episode. Where a turn ends, tokens are appended and never touched
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.engines.engine import Engine, Generation, Request, Sampling
from agentrl_components.rollout.token_buffer import TokenBuffer
from agentrl_components.schedule.seeds import derive
from agentrl_components.trajectory.record import Ending, Trajectory, Turn
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.world import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the episodes of one call are played."""

    max_turns: int
    context: int
    """Most tokens of an episode."""
    max_tokens_per_turn: int
    temperature: float
    top_p: float
    admissible: bool
    """Confine replies to the actions that the world admits."""
    seed: int
    """The run's."""
    purpose: str
    """Part of every seed, so that training and evaluation share no stream."""


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
class Play:
    """An episode under way."""

    buffer: TokenBuffer = field(default_factory=TokenBuffer)
    """Stays empty where the agent speaks text."""
    turns: list[Turn] = field(default_factory=list)
    ending: Ending = Ending.TRUNCATED
    success: bool = False
    raw_score: float = 0.0
    note: str = ""

    def record(self, turn: Turn, step: Step) -> bool:
        """Add a turn and what its step says about the whole. True: the world ended the episode."""
        self.turns.append(turn)
        self.success = step.success
        self.raw_score = step.raw_score
        if step.terminated:
            self.ending = Ending.TERMINATED
        return step.terminated or step.truncated


@dataclass(frozen=True, slots=True)
class Seen:
    """What the agent looks at before it replies."""

    observation: Observation
    state: str | None


async def play(
    job: Job, rules: Rules, number: int, session: Session, engine: Engine, dialogue: Dialogue
) -> Trajectory:
    """Play `job` to its end. `number` names the episode towards the engine.

    Raises `SessionError` when the world is lost and `EngineError` when the sampler is: the caller
    plays the episode again or records it as lost."""
    played = Play()
    try:
        await _turns(job, rules, number, session, engine, dialogue, played)
    finally:
        await engine.release(number)
    return trajectory(job, rules, played)


async def _turns(
    job: Job,
    rules: Rules,
    number: int,
    session: Session,
    engine: Engine,
    dialogue: Dialogue,
    played: Play,
) -> None:
    # Every episode of a task begins in the same state, so the task names it.
    seen = Seen(await session.reset(job.task), job.task.id)
    buffer = played.buffer
    buffer.open(dialogue.opening(job.instructions, seen.observation.text))
    for turn in range(rules.max_turns):
        room = rules.context - len(buffer.ids)
        if room <= 0:
            played.note = f"the episode filled the context of {rules.context} tokens"
            return
        reply = await engine.generate(
            request(job, rules, number, turn, room, buffer, seen.observation, dialogue)
        )
        span = buffer.reply(reply)
        text = dialogue.text(reply.ids)
        step = await session.step(text)
        if played.record(_turn(reply, span, text, seen, step), step):
            return
        seen = Seen(step.observation, step.state)
        if turn + 1 < rules.max_turns:
            buffer.observe(dialogue.following(reply.ids, seen.observation.text))


def _turn(reply: Generation, span: tuple[int, int], text: str, seen: Seen, step: Step) -> Turn:
    return Turn(
        start=span[0],
        end=span[1],
        reward=step.reward,
        wellformed=step.wellformed,
        action=text,
        observation=seen.observation.text,
        version=reply.version,
        state=seen.state,
        achieved=step.achieved,
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
    """The request for one reply. Its seed is a function of what the reply is for, not of when."""
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


def trajectory(job: Job, rules: Rules, played: Play) -> Trajectory:
    """What was played, as the record that is trained on."""
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
        max_turns=rules.max_turns,
        temperature=rules.temperature,
        note=played.note,
        **played.buffer.arrays(),
    )


def lost(job: Job, rules: Rules, note: str) -> Trajectory:
    """The record of an episode that infrastructure took away: no tokens, no score, a reason."""
    return trajectory(job, rules, Play(ending=Ending.LOST, note=note))
