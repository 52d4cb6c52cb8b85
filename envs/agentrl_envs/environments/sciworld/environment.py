"""One SciWorld session."""

from __future__ import annotations

from typing import Any

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.sciworld.ambiguity import Question, question
from agentrl_envs.environments.sciworld.jvm_pool import World, shared_pool
from agentrl_envs.environments.sciworld.options import SciWorldOptions
from agentrl_envs.environments.sciworld.payload import payload_of
from agentrl_envs.environments.sciworld.text_form import TextForm, View
from agentrl_envs.errors import SessionError

NOT_UNDERSTOOD = "No known action matches that input."
"""ScienceWorld's answer to a command that it does not know here. It takes no time."""
FULL_SCORE = 100


class SciWorldEnvironment:
    """Plays one task at a time, in a world that it leases from the pool of this process.

    ScienceWorld's score is -100 to 100. Here a step's reward is the change of the score / 100, with
    a negative score counted as 0, or what `SciWorldOptions.reward` says; `Step.raw_score` has
    ScienceWorld's. A negative score means that the agent focused on a wrong object, and ends the
    episode, as in ScienceWorld's Python API."""

    def __init__(self, form: TextForm, options: SciWorldOptions) -> None:
        self._form = form
        self._options = options
        self._world: World | None = None
        self._shown: View | None = None
        self._question: Question | None = None
        self._raw_score = 0
        self._terminated = False
        self._truncated = False

    def reset(self, task: Task) -> Observation:
        payload = payload_of(task)
        self._shown = self._question = None
        if self._world is not None and not self._world.alive:
            self.close()
        if self._world is None:
            pool = shared_pool(jvms=self._options.jvms, worlds=self._options.worlds)
            self._world = pool.lease()
        with self._world.turn() as simulator:
            # The package's ScienceWorldEnv.step lists all valid actions at each step, which takes
            # 98 % of its time; so its simulator is called directly.
            simulator.load(payload.task, payload.variation, "", False)
            look = simulator.step("look around")
            self._shown = self._form.first(simulator.getTaskDescription(), look, simulator)
        self._raw_score, self._terminated, self._truncated = 0, False, False
        return _observation(self._shown)

    def step(self, action: str) -> Step:
        if self._shown is None or self._world is None:
            raise SessionError("step before reset")
        parsed = self._form.parse(action, self._shown)
        if not parsed.commands or self._terminated or self._truncated:
            problem = parsed.problem or "The task has ended."
            return self._step(self._form.refused(problem, self._shown), 0.0, wellformed=False)
        with self._world.turn() as simulator:
            return self._play(parsed.commands, simulator)

    def close(self) -> None:
        self._shown = None
        if self._world is not None:
            self._world.release()
            self._world = None

    @property
    def jvm_pid(self) -> int | None:
        """Process id of the JVM that this session plays in; None: it has no world now."""
        return None if self._world is None else self._world.jvm_pid

    def _play(self, commands: tuple[str, ...], simulator: Any) -> Step:
        assert self._shown is not None
        answer = ""
        for command in commands:
            answer = self._answer(command, simulator)
            if answer.startswith(NOT_UNDERSTOOD):
                break
        understood = not answer.startswith(NOT_UNDERSTOOD)
        before = self._score()
        self._raw_score = round(FULL_SCORE * simulator.getScore())
        self._terminated = bool(simulator.getCompleted()) or self._raw_score < 0
        over = simulator.getNumMoves() > self._options.step_limit
        self._truncated = over and not self._terminated
        self._shown = self._form.later(answer, self._shown, simulator)
        return self._step(self._shown, self._score() - before, wellformed=understood)

    def _score(self) -> float:
        """The score so far, in [0, 1]."""
        if self._options.reward == "goal":
            return float(self._raw_score >= FULL_SCORE)
        return max(self._raw_score, 0) / FULL_SCORE

    def _answer(self, command: str, simulator: Any) -> str:
        """ScienceWorld's answer to a command. Where it asks which object is meant, a listed action
        means the first, and an agent that writes its own commands is asked."""
        asked, self._question = self._question, None
        answer: str = simulator.step(asked.command(command) if asked else command)
        asked = question(answer)
        if asked is None:
            return answer
        if self._shown is not None and self._shown.menu is not None:
            return str(simulator.step(asked.choice(command)))
        self._question = asked
        return asked.text

    def _step(self, shown: View, reward: float, *, wellformed: bool) -> Step:
        return Step(
            observation=_observation(shown),
            reward=reward,
            terminated=self._terminated,
            truncated=self._truncated,
            wellformed=wellformed,
            success=self._terminated and self._raw_score >= FULL_SCORE,
            raw_score=float(self._raw_score),
        )


def _observation(shown: View) -> Observation:
    return Observation(
        text=shown.text, admissible=None if shown.menu is None else tuple(shown.menu)
    )
