"""The states of the environment before the turns of an episode."""

from dataclasses import replace

from corridor_rules import RULES
from scripted_engine import ScriptedEngine

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.gigpo import gigpo
from agentrl_envs.env import Step, Task, TaskSet
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.world import LocalWorld

TASKS = CorridorTasks()
TASK = TASKS.task("train", 0)
DIALOGUE = PlainDialogue(word_tokenizer(TASKS.vocabulary()).get_vocab())
FREE = replace(RULES, admissible=False, max_turns=8, context=500)


class Reticent(CorridorEnvironment):
    """A corridor that does not tell its state."""

    def step(self, action: str) -> Step:
        return replace(super().step(action), state=None)


class ReticentTasks(CorridorTasks):
    """Tasks of such corridors."""

    def environment(self) -> CorridorEnvironment:
        return Reticent()


def solution(task: Task) -> list[str]:
    cells, start, side = (task.payload[name] for name in ("cells", "start", "side"))
    verb = "push" if task.payload["colour"] in ("red", "green") else "pull"
    return [side] * (start if side == "left" else cells - 1 - start) + [verb]


async def played(tasks: TaskSet, words: list[str], rules: Rules = FREE) -> Trajectory:
    """An episode in which the agent says these words."""
    replies = [(*DIALOGUE.encode_action(word), DIALOGUE.stop[0]) for word in words]
    rollout = TokenRollout({"corridor": LocalWorld(tasks)}, DIALOGUE, 0, 8)
    job = Job(environment="corridor", instructions="", task=TASK, group=0, sample=0, iteration=0)
    (episode,) = await rollout.play([job], rules, ScriptedEngine(replies))
    return episode


async def test_without_states_solutions_of_different_lengths_have_no_advantage():
    short = await played(ReticentTasks(), solution(TASK))
    long = await played(ReticentTasks(), ["here", *solution(TASK)])
    assert (short.score, long.score, len(long.turns) - len(short.turns)) == (1.0, 1.0, 1)
    assert {turn.state for turn in (*short.turns, *long.turns)} == {None}
    views = [EpisodeView.of(episode, Reward()) for episode in (short, long)]
    assert not any(advantages.any() for advantages in gigpo(views).advantages)


async def test_with_states_the_first_turns_of_a_task_have_the_same():
    one, other = [await played(TASKS, [word, *solution(TASK)]) for word in ("here", "door")]
    assert one.turns[0].state == other.turns[0].state == TASK.id
    assert all(turn.state for turn in one.turns)


async def test_an_episode_of_a_single_turn_has_its_state():
    episode = await played(TASKS, ["here"], replace(FREE, max_turns=1))
    assert [turn.state for turn in episode.turns] == [TASK.id]
