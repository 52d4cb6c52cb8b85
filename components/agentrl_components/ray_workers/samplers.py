"""Samplers as Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

from agentrl_components.errors import RunError, WorkersLostError
from agentrl_components.ray_workers.calls.opening import OpeningNotes
from agentrl_components.ray_workers.calls.results import check_ray, outcomes, results
from agentrl_components.ray_workers.calls.silence import SilenceWatch, playing_s
from agentrl_components.ray_workers.calls.under_way import ATTEMPTS, CallsUnderWay, LostActor
from agentrl_components.ray_workers.hand_over.transfer import HandOver, WeightTransfer
from agentrl_components.ray_workers.lifetimes import Lifetime, WithDriver
from agentrl_components.ray_workers.membership import wait_for_nodes
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.nodes.installed_code import installed_code
from agentrl_components.ray_workers.placement import AnyNode, Placement
from agentrl_components.ray_workers.resources import Reservations, SharedGpu
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.spec import RunSpec
from agentrl_components.streaming.samplers import SamplerLoad
from agentrl_components.trajectory.record import Trajectory

CLOSE_S = 10.0
"""How long samplers may take to close their sessions."""

CALLS = 10_000
"""Calls that a sampler works on at the same time: a call per group, which is limited by
`rollout.tasks`, plays `rollout.concurrency` episodes at most."""


class RaySamplers:
    """Implements `rollout.samplers.Samplers`.

    A share is played by one sampler, so every turn of an episode finds its prefix in the engine's
    cache. A sampler that dies is replaced, and its share played again."""

    def __init__(
        self,
        spec: RunSpec,
        model: ModelFolder,
        reserved: Reservations,
        device: str,
        transfer: WeightTransfer | None,
        lifetime: Lifetime | None = None,
        placement: Placement | None = None,
        shared_gpus: Sequence[SharedGpu] | None = None,
    ) -> None:
        """Start the samplers, but for those that an earlier driver has left. Without a `transfer`
        they play with the weights of the model folder. They end with this driver unless `lifetime`
        says otherwise. `shared_gpus`: those of trainers, which they use, too. `open` waits for
        them."""
        self._spec, self._model, self._device = spec, model, device
        self._reserved, self._transfer = reserved, transfer
        self._lifetime = lifetime or WithDriver()
        self._placement, self._shared_gpus = placement or AnyNode(), shared_gpus
        self.take_gpus: Callable[[], None] = lambda: None
        """Called before samplers need the memory of GPUs that trainers use, too."""
        self.watch = SilenceWatch(playing_s(spec))
        """Says which samplers are silent."""
        self._asleep = False
        """Whether the trainers use the GPUs now."""
        self.version = -1
        """Version of the weights that the samplers hold; -1: those of the model folder."""
        self.handed_over: list[HandOver] = []
        """All hand-overs so far that nobody has taken from the list."""
        self.size = reserved.samplers.count
        self._names = [f"sampler-{place}" for place in range(self.size)]
        left = self._lifetime.take_over(self._names, all_or_none=False)
        self.taken_over = sum(actor is not None for actor in left)
        """Samplers that an earlier driver had left."""
        self.actors = [actor or self._start(place) for place, actor in enumerate(left)]
        self._note: Callable[[str], None] = lambda _: None
        self.opened = False
        """Whether `open` has returned."""
        self._opening = [actor.open.remote(installed_code()) for actor in self.actors]

    def open(self, note: Callable[[str], None] = lambda _: None) -> Self:
        """Wait until the samplers can play. `note` is told how many can, if that takes minutes,
        and from then on of each sampler that is replaced.
        Ends them and raises `ModelError` or `EngineError` if an engine cannot run the model,
        `SpecError` if a machine has another AgentRL, and `WorkersLostError` if a sampler dies or an
        environment does not answer."""
        self._note = note
        with ExitStack() as failed:
            failed.callback(self.close)
            results(self._opening, OpeningNotes("samplers", self.size, note))
            failed.pop_all()
        self.opened = True
        return self

    def play(
        self, shares: Sequence[Sequence[Job]], rules: Rules, version: int
    ) -> list[list[Trajectory]]:
        """As `Samplers.play`.

        Raises:
            WorkersLostError: a trainer died during the hand-over, or a share killed its samplers.
        """
        self.hand_over(version)
        calls = CallsUnderWay(self, self.watch)
        for number, share in enumerate(shares):
            calls.start(number, number % self.size, "play", share, rules, version)
        played: dict[int, list[Trajectory]] = {}
        while len(played) < len(shares):
            played.update(calls.wait())
        return [played[number] for number in range(len(shares))]

    def hand_over(self, version: int) -> None:
        """Have the samplers play with the trainers' weights, which are those of `version`, from now
        on; nothing, if they do already. A sampler that a call did not reach, or that is silent, is
        replaced even if it answers again: it has older weights, or waits for the end of the
        hand-over.

        Raises:
            WorkersLostError: a trainer has died, or the samplers that replace a lost one die.
        """
        if version < 0 or self._transfer is None:
            return
        if version == self.version and not self._asleep:
            return
        self.take_gpus()
        self._asleep = False
        done = self._transfer.send(self.actors, version)
        self.handed_over.append(done)
        self.version = version
        self._restart(done.lost)

    def sleep(self) -> None:
        """Have the samplers give the memory of their GPUs to the trainers. One that does not is
        ended. The next hand-over wakes the others, and replaces those that have ended."""
        import ray

        if self._asleep:
            return
        self._asleep = True
        for place, outcome in self._outcomes("sleep").items():
            if isinstance(outcome, WorkersLostError):
                ray.kill(self.actors[place])

    def take_loads(self) -> list[SamplerLoad]:
        """What the samplers did since the last call; those that are lost are left out."""
        answers = self._outcomes("take_load").values()
        return [load for load in answers if not isinstance(load, WorkersLostError)]

    def close(self) -> None:
        """End the samplers. Those that live close their sessions first: an environment server keeps
        the sessions of a process that was killed until they expire, and may have no room for
        those of the next stage."""
        import ray

        self._close_sessions("close")
        for actor in self.actors:
            ray.kill(actor)

    def rest(self) -> None:
        """Have the samplers close their sessions. They stay, for another driver."""
        self._close_sessions("rest")

    def replace(self, lost: Sequence[LostActor]) -> None:
        """Replace samplers that have died, or whose vLLM has. All pending calls of a sampler fail,
        and only the first failure replaces it. One whose connection broke, and that answers again,
        stays."""
        deaths = {
            one.place: one.death
            for one in sorted(lost, key=lambda one: one.place)
            if self.actors[one.place] is one.actor and not _answers_again(one)
        }
        self._restart(deaths)

    def given_up(self, death: WorkersLostError) -> WorkersLostError:
        """The error of episodes, or of a hand-over, whose samplers died `ATTEMPTS` times."""
        return WorkersLostError(
            f"a sampler process died {ATTEMPTS} times with the same episodes or weights (out of "
            f"memory?); the last time: {death}"
        )

    def _outcomes(self, method: str) -> dict[int, Any]:
        """What a method of each sampler returns, by place; a `WorkersLostError` for those that are
        lost."""
        actors = dict(enumerate(self.actors))
        calls = {place: getattr(actor, method).remote() for place, actor in actors.items()}
        return self.watch.outcomes(actors, calls)

    def _restart(self, lost: Mapping[int, WorkersLostError]) -> None:
        """Start samplers in the places of those that are lost, at the same time, with the weights
        of the last hand-over. Those that are there are killed if they live. Raises
        `WorkersLostError` if each that is started in a place dies before it has the weights, and
        what `open` raises."""
        if not lost:
            return
        for _ in range(ATTEMPTS):
            check_ray()  # without it there are no other samplers
            places = list(lost)
            for place, death in lost.items():
                self._note(f"{self._names[place]} is replaced: {death}")
                self._lifetime.end(self._names[place], self.actors[place])
            # They may have died with their node.
            wait_for_nodes(self._reserved, trains=self._transfer is not None, note=self._note)
            self._placement.wait()
            self.take_gpus()
            for place in places:
                self.actors[place] = self._start(place)
            lost = self._opened_with_weights(places)
            if not lost:
                return
        raise self.given_up(next(iter(lost.values())))

    def _close_sessions(self, method: str) -> None:
        """Call a method of every sampler that lives, and wait for `CLOSE_S`."""
        import ray

        with suppress(RunError):
            check_ray()
            closed = [getattr(actor, method).remote() for actor in self.actors]
            ray.wait(closed, num_returns=len(closed), timeout=CLOSE_S)

    def _opened_with_weights(self, places: Sequence[int]) -> dict[int, WorkersLostError]:
        """Wait until samplers that were started can play with the weights of the last hand-over.
        Returns those that are lost, by place."""
        notes = OpeningNotes("new samplers", len(places), self._note)
        calls = [self.actors[place].open.remote(installed_code()) for place in places]
        answers = outcomes(calls, notes)
        found = dict(zip(places, answers, strict=True))
        lost = {place: one for place, one in found.items() if isinstance(one, WorkersLostError)}
        opened = [place for place in places if place not in lost]
        if opened and self.version >= 0 and self._transfer is not None:
            done = self._transfer.send_again([self.actors[p] for p in opened], self.version)
            lost |= {opened[index]: death for index, death in done.lost.items()}
        return lost

    def _start(self, place: int) -> Any:
        import ray

        from agentrl_components.ray_workers.sampler import Sampler

        shared_gpu = self._shared_gpus[place] if self._shared_gpus is not None else None
        options = self._lifetime.options(self._names[place])
        if shared_gpu is not None:
            options |= shared_gpu.options()
        else:
            options |= self._reserved.sampler.options() | self._placement.sampler(place)
        actor = ray.remote(Sampler).options(**options, max_concurrency=CALLS)
        trains = self._transfer is not None
        return actor.remote(
            self._spec, self._model, self._device, trains=trains, shared_gpu=shared_gpu
        )


def _answers_again(lost: LostActor) -> bool:
    """Whether an actor lives that could not be reached for a moment."""
    from ray.exceptions import ActorUnavailableError

    if not isinstance(lost.death.__cause__, ActorUnavailableError):
        return False
    try:
        results([lost.actor.__ray_ready__.remote()])
    except WorkersLostError:
        return False
    return True
