"""Any Gymnasium environment whose observations and actions are text, by its id.

    agentrl envs play gymnasium -o id=my_package:MyGame-v0

As in `gymnasium.make`, a module before the colon is imported first, and registers the id. A task is
a seed of `reset`. Observations are text, or a dictionary with text under `observation_key`. The
actions are either

- text (`spaces.Text`): what is valid now should be in `info["admissible_commands"]`, as in
  TextWorld; without that list every text is taken as an action; or
- numbers (`spaces.Discrete`): `actions` gives each a name.

The rewards of an episode are summed; the score is this sum as a share of `best_return`, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from agentrl_envs.calls.answer_check import score_of
from agentrl_envs.env import Observation, Split, Step, Task, content_id, split_of
from agentrl_envs.environments.react_reply import action_of
from agentrl_envs.errors import ContractError, OptionError, TaskError

if TYPE_CHECKING:
    import gymnasium

NAME = "gymnasium"
COMMANDS = "admissible_commands"
"""Key of `info` with the valid actions, as in TextWorld."""
INVALID, OVER = "This is not a valid action.", "The episode has ended."

_Text = Annotated[str, StringConstraints(max_length=20_000)]


class GymnasiumOptions(BaseModel):
    """Options of the `gymnasium` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    id: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    """Id of the environment, with the module that registers it: `my_package:MyGame-v0`."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    """Keyword arguments of `gymnasium.make`."""
    actions: Annotated[tuple[_Text, ...], Field(max_length=1_000)] = ()
    """Names of the actions of a Discrete space, in order."""
    observation_key: _Text = ""
    """Key of the text in a dictionary of observations."""
    instructions: _Text = ""
    """What the agent is told before the first observation."""
    best_return: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Sum of rewards that counts as solved."""
    tasks: Annotated[int, Field(ge=10, le=1_000_000)] = 1_000
    """Number of seeds; about one in five is held out."""

    @model_validator(mode="after")
    def _names_actions_once(self) -> Self:
        plain = [_plain(action) for action in self.actions]
        if len(set(plain)) < len(plain) or "" in plain:
            raise ValueError("actions: give each action a different name")
        return self


class GymnasiumTasks:
    """A task for each seed."""

    name = NAME

    def __init__(self, options: GymnasiumOptions) -> None:
        self.options = options
        self._check(self.make())
        found: dict[Split, list[Task]] = {"train": [], "heldout": []}
        for seed in range(self.options.tasks):
            task = self._task(seed)
            found[split_of(task.id)].append(task)
        self._tasks = found

    def instructions(self) -> str:
        return self.options.instructions

    def size(self, split: Split) -> int:
        return len(self._tasks[split])

    def task(self, split: Split, index: int) -> Task:
        tasks = self._tasks[split]
        return tasks[index % len(tasks)]

    def environment(self) -> GymnasiumSession:
        return GymnasiumSession(self)

    def vocabulary(self) -> None:
        return None

    def seed_of(self, task: Task) -> int:
        """The seed of a task. Raises `TaskError` for a task of another task set."""
        seed = task.payload.get("seed")
        if not isinstance(seed, int) or task != self._task(seed):
            raise TaskError(
                f"task {task.id}: is not a task of {self.options.id} with these options; use one "
                "that it deals"
            )
        return seed

    def make(self) -> gymnasium.Env[Any, Any]:
        """A new environment. Raises `OptionError` if there is none of this id."""
        import gymnasium  # not for the options, which are checked where it is not installed

        own = self.options
        try:
            return gymnasium.make(own.id, disable_env_checker=True, **own.arguments)
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise OptionError(
                f"gymnasium.options.id: {own.id}: {error}; give the id that its package registers, "
                "with the package before a colon"
            ) from None

    def _task(self, seed: int) -> Task:
        payload = {"id": self.options.id, "arguments": dict(self.options.arguments), "seed": seed}
        return Task(id=content_id(NAME, payload), category=self.options.id, payload=payload)

    def _check(self, env: gymnasium.Env[Any, Any]) -> None:
        """Raises `OptionError` if its spaces are not text."""
        import gymnasium

        own, space = self.options, env.action_space
        env.close()
        if isinstance(space, gymnasium.spaces.Discrete):
            if len(own.actions) != int(space.n):
                raise OptionError(
                    f"gymnasium.options.actions: {own.id} has {int(space.n)} actions, and "
                    f"{len(own.actions)} names are given; name each, in order"
                )
        elif not isinstance(space, gymnasium.spaces.Text):
            raise OptionError(
                f"gymnasium.options.id: the actions of {own.id} are {type(space).__name__}; use an "
                "environment with Text or Discrete actions"
            )


class GymnasiumSession:
    """One session: an environment that is made once and reset for each task."""

    def __init__(self, tasks: GymnasiumTasks) -> None:
        self._tasks = tasks
        self._env: gymnasium.Env[Any, Any] | None = None
        self._started = False

    def reset(self, task: Task) -> Observation:
        """Reset with the seed of the task. Raises `TaskError` for another task set's."""
        seed = self._tasks.seed_of(task)
        if self._env is None:
            self._env = self._tasks.make()
        raw, info = self._env.reset(seed=seed)
        self._return, self._score, self._started = 0.0, 0.0, True
        self._ended = (False, False)
        self._seen = self._observation(raw, info)
        return self._seen

    def step(self, action: str) -> Step:
        """Take the action. Raises `TaskError` before the first reset."""
        if self._env is None or not self._started:
            raise TaskError("gymnasium: no task is set up; call reset with a task first")
        if any(self._ended):
            return self._step(Observation(text=OVER, admissible=()), wellformed=False)
        chosen = self._parse(action)
        if chosen is None:
            told = Observation(text=INVALID, admissible=self._seen.admissible)
            return self._step(told, wellformed=False)
        raw, reward, terminated, truncated, info = self._env.step(chosen)
        self._return += float(reward)
        self._ended = (bool(terminated), bool(truncated) and not terminated)
        self._seen = self._observation(raw, info)
        return self._step(self._seen, wellformed=True)

    def close(self) -> None:
        """Close the environment."""
        self._started = False
        if self._env is not None:
            self._env.close()
            self._env = None

    def _step(self, seen: Observation, *, wellformed: bool) -> Step:
        score = max(0.0, score_of(self._return / self._tasks.options.best_return))
        reward, self._score = score - self._score, score
        return Step(
            observation=seen,
            reward=reward,
            terminated=self._ended[0],
            truncated=self._ended[1],
            wellformed=wellformed,
            success=score == 1.0,
            raw_score=self._return,
        )

    def _parse(self, reply: str) -> Any:
        """The action in a reply, as the environment takes it; None: there is none."""
        if names := self._tasks.options.actions:
            return _chosen(reply, names)
        admissible = self._seen.admissible
        if admissible is None:
            return reply.rpartition("Action:")[2].strip() or None
        index = _chosen(reply, admissible)
        return None if index is None else admissible[index]

    def _observation(self, raw: Any, info: Mapping[str, Any]) -> Observation:
        """Raises `ContractError` for an observation that is no text."""
        key = self._tasks.options.observation_key
        text = raw[key] if key and isinstance(raw, Mapping) else raw
        if not isinstance(text, str):
            raise ContractError(
                f"{self._tasks.options.id}: an observation is {type(text).__name__}; use an "
                "environment whose observations are text, or set observation_key"
            )
        listed: Sequence[str] | None = self._tasks.options.actions or info.get(COMMANDS)
        if any(self._ended):
            return Observation(text=text, admissible=())
        admissible = None if listed is None else tuple(dict.fromkeys(map(str, listed)))
        return Observation(text=text, admissible=admissible)


def _chosen(reply: str, actions: Sequence[str]) -> int | None:
    """Index of the action in a reply: as it is spelled, else the only one that differs in marks
    around it. None: there is none."""
    exact, said = [_plain(action) for action in actions], _plain(reply.rpartition("Action:")[2])
    if said in exact:
        return exact.index(said)
    bare, meant = [action_of(action) for action in actions], action_of(reply)
    return bare.index(meant) if meant and bare.count(meant) == 1 else None


def _plain(text: str) -> str:
    """In lower case, with single spaces."""
    return " ".join(text.lower().split())
