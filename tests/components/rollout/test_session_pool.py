"""Episodes and rollouts: limits, endings, retries, order."""

import asyncio
from functools import partial

import pytest
from blocking_tasks import HangingTasks
from corridor_server import PATIENT, served
from scripted_engine import ScriptedEngine

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.engines.engine import Stop
from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.errors import DriftError
from agentrl_components.rollout.episode import Job, Rules, play
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.trajectory.record import Ending
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.conformance.faults import Faults, FaultyTaskSet
from agentrl_envs.env import Observation, Step
from agentrl_envs.environments.corridor import CorridorOptions, CorridorTasks
from agentrl_envs.errors import ContractError, SessionError
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld

TASKS = CorridorTasks()
DIALOGUE = PlainDialogue(word_tokenizer(TASKS.vocabulary()).get_vocab())
END = DIALOGUE.stop[0]


def say(word):
    return (*DIALOGUE.encode_action(word), END)


def rules(**changes) -> Rules:
    usual = {
        "max_turns": 8,
        "context": 500,
        "max_tokens_per_turn": 4,
        "temperature": 1.0,
        "top_p": 1.0,
        "admissible": False,
        "seed": 3,
        "purpose": "train/0",
    }
    return Rules(**usual | changes)


def job(index=0, sample=0) -> Job:
    return Job(
        environment="corridor",
        instructions="walk",
        task=TASKS.task("train", index),
        group=index,
        sample=sample,
        iteration=4,
    )


def solution(task):
    payload = task.payload
    walk = (
        payload["start"] if payload["side"] == "left" else payload["cells"] - 1 - payload["start"]
    )
    verb = "push" if payload["colour"] in ("red", "green") else "pull"
    return [payload["side"]] * walk + [verb]


def rollout(world=None, retries=2, concurrency=64) -> TokenRollout:
    return TokenRollout({"corridor": world or LocalWorld(TASKS)}, DIALOGUE, retries, concurrency)


def scripted(words) -> ScriptedEngine:
    return ScriptedEngine([say(word) for word in words])


async def played(words, **changes):
    engine = scripted(words)
    (one,) = await rollout().play([job()], rules(**changes), CheckedEngine(engine))
    return one, engine


async def test_a_solved_task_terminates_with_its_score():
    words = solution(TASKS.task("train", 0))
    one, engine = await played(words)
    assert one.ending is Ending.TERMINATED
    assert (one.score, one.success, len(one.turns)) == (1.0, True, len(words))
    assert [turn.action for turn in one.turns] == words
    assert [turn.reward for turn in one.turns] == [0.0] * (len(words) - 1) + [1.0]
    assert [turn.success for turn in one.turns] == [False] * (len(words) - 1) + [True]
    assert engine.released == [engine.requests[0].session]


async def test_the_ids_that_were_sampled_are_the_ids_that_are_trained():
    """Upstream decodes a reply and encodes it again."""
    words = solution(TASKS.task("train", 0))
    one, engine = await played(words)
    sampled = one.ids[one.mask].tolist()
    assert sampled == [token for word in words for token in say(word)]
    for request, turn in zip(engine.requests, one.turns, strict=True):
        assert list(request.ids) == one.ids[: turn.start].tolist()
    assert one.logprobs[one.mask].tolist() == [-1.0] * len(sampled)
    assert not one.logprobs[~one.mask].any()


class TypedSession:
    """A session whose only action has two spaces, which no encoding of words gives back."""

    ACTION = "push  left"

    def __init__(self):
        self.got = []

    async def reset(self, task):
        return Observation(text="a door", admissible=(self.ACTION,))

    async def step(self, action):
        self.got.append(action)
        return Step(
            observation=Observation(text="open"),
            reward=1.0,
            terminated=True,
            truncated=False,
            wellformed=action == self.ACTION,
            success=True,
            raw_score=1.0,
        )


async def test_a_restricted_reply_reaches_the_environment_as_the_action_that_it_listed():
    session, engine = TypedSession(), RandomEngine()
    one = await play(job(), rules(admissible=True), 0, session, engine, DIALOGUE)
    assert session.got == ["push  left"]
    assert [turn.action for turn in one.turns] == ["push  left"]
    assert one.turns[0].wellformed


async def test_a_restricted_reply_that_was_cut_off_is_what_was_said():
    session, cut = TypedSession(), ScriptedEngine([DIALOGUE.encode_action("push")], Stop.LENGTH)
    await play(job(), rules(admissible=True), 0, session, cut, DIALOGUE)
    assert session.got == ["push"]


async def test_an_episode_that_reaches_its_turns_is_truncated_and_ends_with_its_reply():
    one, _ = await played(["left", "right"] * 5, max_turns=2)
    assert one.ending is Ending.TRUNCATED
    assert len(one.turns) == 2
    assert one.turns[-1].end == len(one.ids)
    assert one.max_turns == 2


async def test_a_worlds_own_limit_truncates():
    one, _ = await played(["up", "up", "up"], max_turns=3)
    assert [turn.wellformed for turn in one.turns] == [False] * 3
    world = LocalWorld(CorridorTasks(CorridorOptions(turns=1)))
    walk = solution(TASKS.task("train", 0))[0]
    (short,) = await rollout(world).play([job()], rules(), scripted([walk]))
    assert (short.ending, len(short.turns)) == (Ending.TRUNCATED, 1)


async def test_a_reply_that_is_cut_gets_a_stop_token_that_was_not_sampled():
    """Upstream trains an end token after a length cut."""
    word = say("left")[:-1]
    engine = ScriptedEngine([word, word], stop=Stop.LENGTH)
    (one,) = await rollout().play([job()], rules(max_turns=2), CheckedEngine(engine))
    closed = one.turns[0].end
    assert one.ids[closed] == END
    assert not one.mask[closed]
    assert one.mask.sum() == 2


async def test_a_reply_may_not_be_longer_than_the_rest_of_the_context():
    opening = len(DIALOGUE.opening("walk", "corridor 5 red door left 2"))
    engine = scripted(["up"] * 9)
    (one,) = await rollout().play([job()], rules(context=opening + 3), engine)
    assert engine.requests[0].sampling.max_tokens == 3
    assert one.ending is Ending.TRUNCATED
    assert one.note == f"the episode filled the context of {opening + 3} tokens"
    assert len(one.turns) == 1


async def test_every_reply_has_its_own_seed_derived_from_its_purpose():
    words = ["left", "right"] * 2
    _, first = await played(words, max_turns=4)
    _, again = await played(words, max_turns=4)
    _, other = await played(words, max_turns=4, purpose="evaluation")
    seeds = [request.seed for request in first.requests]
    assert len(set(seeds)) == 4
    assert seeds == [request.seed for request in again.requests]
    assert not set(seeds) & {request.seed for request in other.requests}


async def test_results_are_in_the_order_of_the_jobs():
    jobs = [job(index, sample) for index in (3, 1, 2) for sample in (1, 0)]
    world = LocalWorld(TASKS)
    episodes = await rollout(world, concurrency=2).play(
        jobs, rules(admissible=True), CheckedEngine(RandomEngine())
    )
    assert [(e.group, e.sample) for e in episodes] == [(j.group, j.sample) for j in jobs]
    assert [e.task for e in episodes] == [j.task.id for j in jobs]


async def test_an_episode_of_a_lost_session_is_replayed_with_the_same_seeds():
    jobs = [job(index, sample) for index in range(6) for sample in range(4)]
    still = await rollout().play(jobs, rules(admissible=True), RandomEngine())
    faulty = LocalWorld(FaultyTaskSet(TASKS, Faults(seed=1, lose_reset=0.1, lose_step=0.1)))
    shaken = rollout(faulty, retries=60)
    again = await shaken.play(jobs, rules(admissible=True), RandomEngine())
    for before, after in zip(still, again, strict=True):
        assert before.ids.tolist() == after.ids.tolist()
        assert (before.score, before.ending) == (after.score, after.ending)


async def test_an_episode_that_stays_lost_has_no_tokens_and_a_reason():
    """Upstream trains it as reward 0."""
    faulty = LocalWorld(FaultyTaskSet(TASKS, Faults(lose_reset=1.0)))
    engine = scripted([])
    (one,) = await rollout(faulty, retries=2).play([job()], rules(), engine)
    assert one.ending is Ending.LOST
    assert one.num_sampled == len(one.ids) == len(one.turns) == 0
    assert one.note.startswith("SessionError: the session was lost while its task was set up")
    assert one.note.endswith("(tried 3 times)")
    assert len(engine.released) == 3


class Liar:
    """A corridor whose rewards are out of bounds."""

    def __init__(self) -> None:
        self._inner = TASKS.environment()

    def reset(self, task):
        return self._inner.reset(task)

    def step(self, action):
        step = self._inner.step(action)
        return Step(
            observation=step.observation,
            reward=7.0,
            terminated=step.terminated,
            truncated=step.truncated,
            wellformed=step.wellformed,
            success=step.success,
            raw_score=step.raw_score,
            state=step.state,
            achieved=step.achieved,
        )

    def close(self):
        self._inner.close()


class LyingTasks(CorridorTasks):
    """Tasks of corridors that break the contract."""

    def environment(self):
        return Liar()


async def test_an_environment_that_breaks_its_contract_ends_the_call_with_one_error():
    jobs = [job(index) for index in range(5)]
    with pytest.raises(ContractError, match=r"reward is 7\.0"):
        await rollout(LocalWorld(LyingTasks())).play(jobs, rules(admissible=True), RandomEngine())


async def test_a_random_policy_without_admissible_actions_loses_the_episode_with_its_reason():
    (one,) = await rollout(retries=0).play([job()], rules(), RandomEngine())
    assert one.ending is Ending.LOST
    assert "needs an environment with admissible actions" in one.note


async def test_drift_is_not_retried():
    engine = CheckedEngine(scripted(["left"] * 9))
    from agentrl_components.engines.engine import Request, Sampling

    sampling = Sampling(temperature=1, top_p=1, max_tokens=3, stop=(END,))
    await engine.generate(Request(session=1, ids=(1, 2), seed=0, sampling=sampling))
    with pytest.raises(DriftError):
        await engine.generate(Request(session=1, ids=(1, 3, 4, 5, 6), seed=0, sampling=sampling))


async def test_two_pools_with_more_episodes_than_sessions_on_their_server_both_go_on():
    """Regression: both kept the sessions that they had while all their other episodes waited for
    new ones, until the wait was given up after two minutes."""
    with served(capacity=4) as url:
        async with (
            RemoteWorld.connected(url, options=PATIENT) as one,
            RemoteWorld.connected(url, options=PATIENT) as other,
            asyncio.timeout(60),  # PATIENT would wait for 300 s
        ):
            rollouts = [TokenRollout({"corridor": w}, DIALOGUE, 2, 8) for w in (one, other)]
            jobs = [job(index) for index in range(12)]
            limits = rules(admissible=True)
            played = await asyncio.gather(
                *(r.play(jobs, limits, CheckedEngine(RandomEngine())) for r in rollouts)
            )
            for rollout in rollouts:
                await rollout.close()
    assert all(e.ending is not Ending.LOST for episodes in played for e in episodes)
    assert one.waiting == other.waiting == 0


async def test_a_pool_that_has_no_more_episodes_leaves_its_sessions_to_another():
    """Regression: it kept them for its next iteration, which does not begin before the other pool
    has played this one."""
    jobs, limits = [job(index) for index in range(4)], rules(admissible=True)
    with served(capacity=4) as url:
        async with (
            RemoteWorld.connected(url, options=PATIENT) as one,
            RemoteWorld.connected(url, options=PATIENT) as other,
            asyncio.timeout(60),  # PATIENT would wait for 300 s
        ):
            rollouts = [TokenRollout({"corridor": w}, DIALOGUE, 2, 8) for w in (one, other)]
            for rollout in rollouts:
                played = await rollout.play(jobs, limits, CheckedEngine(RandomEngine()))
                assert all(episode.ending is not Ending.LOST for episode in played)


async def test_a_session_is_used_for_one_episode_after_another():
    opened = []

    class Counted(RemoteWorld):
        def session(self):
            opened.append(super().session())
            return opened[-1]

    jobs, limits = [job(index) for index in range(6)], rules(admissible=True)
    with served() as url:
        async with Counted.connected(url, options=PATIENT) as world:
            rollout = TokenRollout({"corridor": world}, DIALOGUE, 2, concurrency=2)
            await rollout.play(jobs, limits, CheckedEngine(RandomEngine()))
    assert len(opened) == 2


class RestartableWorld(LocalWorld):
    """A restart loses the sessions that it has."""

    restarts = 0

    def session(self):
        return LosableSession(self, super().session())


class LosableSession:
    def __init__(self, world, inner):
        self._world, self._inner, self._restarts = world, inner, world.restarts

    async def reset(self, task):
        if self._restarts != self._world.restarts:
            raise SessionError("the session was lost with its server")
        await asyncio.sleep(0)  # so that all episodes are played at once, each in its own session
        return await self._inner.reset(task)

    async def step(self, text):
        return await self._inner.step(text)

    async def close(self):
        await self._inner.close()


async def test_an_episode_tries_one_kept_session_at_most():
    """Regression: the retries of an episode took one kept session after another, all of which had
    been lost for the same reason."""
    world, limits = RestartableWorld(TASKS), rules(admissible=True)
    playing = rollout(world, retries=1)
    await playing.play([job(index) for index in range(8)], limits, RandomEngine())
    world.restarts += 1
    jobs = [job(index) for index in range(2)]
    played = await playing.play(jobs, limits, RandomEngine())
    assert [one.note for one in played if one.ending is Ending.LOST] == []


async def played_where_hang_hangs(file, replies: list[str], retries: int):
    """An episode in a process whose calls may take 2 s, and whose action `hang` hangs."""
    dialogue = PlainDialogue(word_tokenizer((*TASKS.vocabulary(), "hang")).get_vocab())
    end = dialogue.stop[0]
    engine = ScriptedEngine([(*dialogue.encode_action(word), end) for word in replies])
    world = ProcessWorld(partial(HangingTasks, file), workers=1, timeout_s=2.0)
    playing = TokenRollout({"corridor": world}, dialogue, retries, 1)
    try:
        (one,) = await playing.play([job()], rules(), CheckedEngine(engine))
    finally:
        await playing.close()
        await world.close()
    return one


async def test_an_episode_whose_step_takes_longer_than_the_timeout_is_played_again(tmp_path):
    words = solution(TASKS.task("train", 0))
    one = await played_where_hang_hangs(tmp_path / "hangs", ["hang", *words], retries=1)
    assert (one.ending, one.score) == (Ending.TERMINATED, 1.0)
    assert [turn.action for turn in one.turns] == words


async def test_an_episode_whose_steps_always_take_longer_than_the_timeout_is_lost(tmp_path):
    one = await played_where_hang_hangs(tmp_path / "hangs", ["hang", "hang"], retries=1)
    assert (one.ending, one.score, len(one.turns)) == (Ending.LOST, 0.0, 0)
    assert one.note.endswith(
        f"was ended: step of task {one.task} took longer than 2 s (tried 2 times)"
    )
