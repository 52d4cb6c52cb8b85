"""Episodes played in one process."""

from corridor_jobs import GREEDY, TASKS, jobs
from learner_bench import spec

from agentrl_components.model.sources import fetch_model
from agentrl_components.workers.player import Player, vllm_options

SPEC = spec()


def test_replies_of_the_random_policy_are_counted(tmp_path):
    """A sampler whose replies do not become more counts as silent."""
    folder = fetch_model(SPEC.model, TASKS.vocabulary(), 0, tmp_path)
    player = Player(SPEC, folder, vllm_options(SPEC, "cpu"), decoder=None)
    try:
        played = player.play(jobs(3), GREEDY, -1, None)
        turns = sum(len(episode.turns) for episode in played)
        assert turns >= 3
        assert player.replies == turns
    finally:
        player.close()
