"""The playing side, while the learning side is restarted."""

from agentrl_components.exchange.trajectory_queue import TrajectoryQueue
from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.spec import AgentRLRun
from agentrl_components.stages.disaggregated import play_phase
from agentrl_components.storage.memory import MemoryStore
from agentrl_components.tracking.tracker import SilentTracker

RUN = AgentRLRun.model_validate(
    {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "apart"},
        "spec": {
            "model": {"source": "tiny", "context": 64},
            "environments": [{"name": "corridor", "builtin": "corridor"}],
            "rollout": {"tasks": 2, "groupSize": 2},
            "horizon": {"phases": [{"maxTurns": 3, "iterations": 3}]},
            "compute": {"workers": 1},
        },
    }
)


class LearningSide:
    """Publishes weights, and may do so while the other side plays."""

    def __init__(self, context, *, goes_back):
        self._vector = context.lead.policy.shared.vector
        self._goes_back = goes_back
        self.channel = WeightChannel(context.store)

    def publish(self, number, *, finished=False):
        window = PlayWindow(number=number, lag=0, last=number, max_lag=0)
        published = Published(
            window=window, version=number, phase=0, max_turns=3, finished=finished
        )
        self.channel.publish(published, self._vector)

    def collect(self, request, version):
        """In the place of a collector: the episodes are of no interest here."""
        if self._goes_back:
            self.channel.clear()
        self.publish(version + 1, finished=True)
        return []


def played(*, goes_back):
    """How many iterations the playing side kept."""
    store, view = MemoryStore(), SilentProgressView()
    with RunContext(RUN, store, SilentTracker(), view, lambda: None, learns=False) as context:
        other = LearningSide(context, goes_back=goes_back)
        other.publish(1)
        context.collector = other
        count = play_phase(context, 0)
    assert TrajectoryQueue(store).has(1, 1) == (count == 1)
    return count


def test_episodes_of_weights_that_were_taken_back_while_they_were_played_are_dropped():
    assert played(goes_back=False) == 1
    assert played(goes_back=True) == 0
