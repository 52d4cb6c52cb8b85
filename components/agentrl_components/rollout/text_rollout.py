"""Episodes of agents that speak text: a model behind somebody's API, the random policy.

No token ids are known, so such an episode can be scored and replayed but not trained on: its
trajectory has turns and no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agentrl_components.engines.random_policy import chosen
from agentrl_components.errors import EngineError
from agentrl_components.rollout.collector import Call, jobs_of, rules_of
from agentrl_components.rollout.episode import Job, Play, Rules, trajectory
from agentrl_components.rollout.session_pool import Sessions
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory, Turn
from agentrl_envs.env import Observation
from agentrl_envs.world import Session, World

NO_VERSION = -1
"""The policy version of an agent that has no weights here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One reply to give."""

    messages: Sequence[Message]
    admissible: tuple[str, ...] | None
    """Every valid action, where the world names them."""
    seed: int
    """63 bits, a function of what the reply is for."""
    temperature: float
    top_p: float
    max_tokens: int


class TextAgent(Protocol):
    """Whoever replies."""

    async def reply(self, ask: Ask) -> str:
        """The reply, whole. Raises `EngineError` where this one cannot be had, and `RunError` where
        no reply ever can."""
        ...


class RandomAgent:
    """One of the admissible actions, each as likely as the others: what `RandomEngine` plays."""

    async def reply(self, ask: Ask) -> str:
        if not ask.admissible:
            raise EngineError("the random policy needs a world that names its admissible actions")
        return ask.admissible[chosen(ask.seed, len(ask.admissible))]


class TextPlayers:
    """Plays calls with an agent that speaks text. Every method runs on the loop of `worlds`."""

    def __init__(self, spec: RunSpec, worlds: Mapping[str, World]) -> None:
        self._spec = spec
        self._instructions = {name: world.instructions() for name, world in worlds.items()}
        self._sessions = Sessions(worlds, spec.rollout.retries, spec.rollout.concurrency)

    async def play(self, call: Call, agent: TextAgent) -> list[Trajectory]:
        """The episodes of `call`, ordered by group and sample."""
        rules = rules_of(self._spec, call)
        jobs = jobs_of(call, self._instructions, range(len(call.drawn)))
        return await self._sessions.play(
            jobs, rules, lambda job, session: played(job, rules, session, agent)
        )

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()


async def played(job: Job, rules: Rules, session: Session, agent: TextAgent) -> Trajectory:
    """Play `job` to its end. Raises `SessionError` when the world is lost and `EngineError` when
    the agent is."""
    seen = await session.reset(job.task)
    said = [Message(role="system", content=job.instructions)] if job.instructions else []
    play = Play()
    for number in range(rules.max_turns):
        said.append(Message(role="user", content=shown(seen, rules.admissible)))
        action = await agent.reply(ask(job, rules, number, tuple(said), seen))
        said.append(Message(role="assistant", content=action))
        step = await session.step(action)
        turn = Turn(
            start=0,
            end=0,
            reward=step.reward,
            wellformed=step.wellformed,
            action=action,
            observation=seen.text,
            version=NO_VERSION,
        )
        if play.record(turn, step):
            break
        seen = step.observation
    return trajectory(job, rules, play)


def shown(seen: Observation, admissible: bool) -> str:
    """What the agent is told. Where a policy's decoding would be confined to the admissible
    actions, they are named: text cannot be confined."""
    if not admissible or not seen.admissible:
        return seen.text
    return "\n".join([seen.text, "", "Reply with one of these actions:", *seen.admissible])


def ask(job: Job, rules: Rules, turn: int, messages: Sequence[Message], seen: Observation) -> Ask:
    """The question of one turn, with the seed that an engine's request would have."""
    path = (rules.purpose, job.iteration, job.environment, job.task.id, job.sample, turn)
    return Ask(
        messages=messages,
        admissible=seen.admissible,
        seed=derive(rules.seed, *path),
        temperature=rules.temperature,
        top_p=rules.top_p,
        max_tokens=rules.max_tokens_per_turn,
    )
