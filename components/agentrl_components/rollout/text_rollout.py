"""Episodes of agents that reply in text: a model behind an API, the random policy.

Token ids are not known, so such an episode can be scored and displayed but not trained on: its
trajectory has turns and no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol

from agentrl_components.engines.random_policy import random_index
from agentrl_components.errors import ContextFullError, EngineError
from agentrl_components.rollout.episode import EpisodeState, Job, Rules, trajectory
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.session_pool import SessionPool
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import CONTEXT_FULL, Trajectory, Turn
from agentrl_envs.chat.thoughts import after_thoughts
from agentrl_envs.env import Observation, split_exchange
from agentrl_envs.world import Session, World

NO_VERSION = -1
"""Policy version of an agent whose weights are not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRequest:
    """A request for one reply."""

    messages: Sequence[Message]
    admissible: tuple[str, ...] | None
    """Every valid action, if the environment names them."""
    seed: int
    """63 bits; depends on what the reply is for, not on when it is asked."""
    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What replies cost, and how they ended."""

    prompt_tokens: int = 0
    """As the agent's server counts them; 0 if it does not."""
    completion_tokens: int = 0
    """Likewise."""
    replies: int = 0
    cut: int = 0
    """Replies that ended at the largest number of tokens."""
    empty: int = 0
    """Replies without text."""

    def __add__(self, other: Usage) -> Usage:
        ours, theirs = asdict(self), asdict(other)
        return Usage(**{name: ours[name] + theirs[name] for name in ours})


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply."""

    text: str
    usage: Usage = NO_USAGE


class TextAgent(Protocol):
    """An agent that replies in text."""

    async def reply(self, request: ReplyRequest) -> Reply:
        """The complete reply. Raises `ContextFullError` if there is no room for it, `EngineError`
        if this reply failed, and `RunError` if no other try can succeed (a wrong key, an unknown
        model, a request that is refused)."""
        ...


class RandomAgent:
    """Draws an admissible action uniformly, like `RandomEngine`."""

    async def reply(self, request: ReplyRequest) -> Reply:
        if not request.admissible:
            raise EngineError("the random policy needs an environment with admissible actions")
        chosen = random_index(request.seed, len(request.admissible))
        return Reply(text=request.admissible[chosen])


class EpisodeLog(Protocol):
    """Keeps finished episodes, so that an interrupted collection does not play them again."""

    def find(self, job: Job, rules: Rules) -> Trajectory | None:
        """The episode of `job`, if it was finished earlier."""
        ...

    def add(self, job: Job, rules: Rules, episode: Trajectory, usage: Usage) -> None:
        """Keep a finished episode. Lost ones are never added: they are played again."""
        ...


class MemoryEpisodeLog:
    """Keeps episodes in memory, for tests."""

    def __init__(self) -> None:
        self.episodes: dict[tuple[str, int, str, str, int], Trajectory] = {}
        """The episodes, by `episode_identity`."""

    def find(self, job: Job, rules: Rules) -> Trajectory | None:
        kept = self.episodes.get(episode_identity(job, rules))
        return None if kept is None else replace(kept, group=job.group)

    def add(self, job: Job, rules: Rules, episode: Trajectory, usage: Usage) -> None:
        del usage
        self.episodes[episode_identity(job, rules)] = episode


def episode_identity(job: Job, rules: Rules) -> tuple[str, int, str, str, int]:
    """What distinguishes an episode from the others of its evaluation: purpose, turn limit,
    environment, task and sample."""
    limit = rules.turns(job.environment)
    return rules.purpose, limit, job.environment, job.task.id, job.sample


class TextCollector:
    """Collects episodes of an agent that replies in text. All methods run on the event loop of
    `worlds`."""

    def __init__(
        self, spec: RunSpec, worlds: Mapping[str, World], log: EpisodeLog | None = None
    ) -> None:
        self._spec, self._log = spec, log
        self._instructions = {name: world.instructions() for name, world in worlds.items()}
        self._sessions = SessionPool(worlds, spec.rollout.retries, spec.rollout.concurrency)

    async def collect(self, request: CollectRequest, agent: TextAgent) -> list[Trajectory]:
        """The episodes of `request`, ordered by group and sample; those in the log are not played
        again."""
        rules = request.rules(self._spec)
        jobs = request.jobs(self._instructions)
        log = self._log
        known = {i: e for i, job in enumerate(jobs) if log and (e := log.find(job, rules))}

        async def play_episode(job: Job, session: Session) -> Trajectory:
            episode, usage = await play_text(job, rules, session, agent)
            if log is not None:
                log.add(job, rules, episode, usage)
            return episode

        left = [job for i, job in enumerate(jobs) if i not in known]
        played = iter(await self._sessions.play(left, rules, play_episode))
        return [known[i] if i in known else next(played) for i in range(len(jobs))]

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()


async def play_text(
    job: Job, rules: Rules, session: Session, agent: TextAgent
) -> tuple[Trajectory, Usage]:
    """Play `job` to its end. Returns the episode and what its replies cost. Raises `SessionError`
    if the environment fails and `EngineError` if the agent fails."""
    state, usage = EpisodeState(), NO_USAGE
    seen = await session.reset(job.task)
    messages = opening_messages(job.instructions)
    for number in range(rules.turns(job.environment)):
        messages.append(Message(role="user", content=prompt(seen, rules.admissible)))
        started_s = state.seconds()
        try:
            reply = await agent.reply(reply_request(job, rules, number, tuple(messages), seen))
        except ContextFullError as error:
            state.note = f"{CONTEXT_FULL}: {error}"
            break
        said, usage = reply.text, usage + reply.usage
        messages.append(Message(role="assistant", content=said))
        # Servers that are not told of a model's thoughts return them as part of its reply.
        step = await session.step(after_thoughts(said))
        turn = Turn(
            start=0,
            end=0,
            reward=step.reward,
            wellformed=step.wellformed,
            action=said,
            observation=seen.text,
            version=NO_VERSION,
            started_s=started_s,
            duration_s=state.seconds() - started_s,
            success=step.success,
        )
        if state.add(turn, step):
            break
        seen = step.observation
    return trajectory(job, rules, state), usage


def opening_messages(instructions: str) -> list[Message]:
    """The messages before the first observation: a system message, or a user message and the
    reply to it if the instructions are an exchange."""
    text, answer = split_exchange(instructions)
    if answer is not None:
        return [Message(role="user", content=text), Message(role="assistant", content=answer)]
    return [Message(role="system", content=text)] if text else []


def prompt(seen: Observation, admissible: bool) -> str:
    """The message for an observation. If replies are restricted to admissible actions, it lists
    them, since a text API cannot restrict decoding."""
    if not admissible or not seen.admissible:
        return seen.text
    return "\n".join([seen.text, "", "Reply with one of these actions:", *seen.admissible])


def reply_request(
    job: Job, rules: Rules, turn: int, messages: Sequence[Message], seen: Observation
) -> ReplyRequest:
    """The request of one turn, with the seed that the engine request would have."""
    path = (rules.purpose, job.iteration, job.environment, job.task.id, job.sample, turn)
    return ReplyRequest(
        messages=messages,
        admissible=seen.admissible,
        seed=derive(rules.seed, *path),
        temperature=rules.temperature,
        top_p=rules.top_p,
        max_tokens=rules.max_tokens_per_turn,
    )
