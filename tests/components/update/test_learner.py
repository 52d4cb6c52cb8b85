"""Updates: rewarded actions become likelier, and results do not depend on the processes."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from learner_bench import EIGHT, GROUP, Bench, as_sampled, episode, spec

from agentrl_components.model.load import export_weights
from agentrl_components.model.sources import make_tiny
from agentrl_components.trajectory.record import Ending
from agentrl_components.update.learner import Learner
from agentrl_components.update.logprobs import score
from agentrl_components.update.packing import Example, example, pack
from agentrl_components.workers import fork_server
from agentrl_components.workers.pool import PendingWorkers, ProcessPool
from agentrl_components.workers.trainers import PoolTrainers
from agentrl_components.workers.worker import Setup, Worker
from agentrl_envs.environments.corridor import CorridorTasks


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    words = CorridorTasks().vocabulary()
    return make_tiny(spec().model, words, 0, tmp_path_factory.mktemp("tiny"))


def test_a_rewarded_action_becomes_likelier_and_a_punished_one_rarer(folder):
    with Bench(folder) as bench:
        group = as_sampled(bench, GROUP)
        before = [bench.logprobs(e).sum() for e in group]
        updated = bench.update(group)
        after = [bench.logprobs(e).sum() for e in group]
    assert after[0] > before[0]
    assert after[1] < before[1]
    assert updated.steps == 1
    # Two scores, 1 and 0: advantages are +-0.7071 and cancel in the loss while the ratio is 1.
    assert updated.metrics["update/loss"] == pytest.approx(0.0, abs=1e-4)
    assert updated.metrics["update/ratio"] == pytest.approx(1.0, abs=1e-5)
    assert updated.metrics["update/tokens"] == 4.0


def test_the_gradient_is_that_of_advantage_times_logprob(folder):
    """One mini-batch of 4 tokens at ratio 1: loss = -(1/4) * sum of advantage * logprob."""
    with Bench(folder) as bench:
        group = as_sampled(bench, GROUP)
        names = dict(bench.worker.decoder.named_parameters())
        expected = torch.zeros_like(bench.vector)
        views = bench.worker.policy.split(expected)
        advantage = 0.5 / (0.5**0.5 + 1e-6)
        logprobs = []
        for one in group:
            example = Example(
                ids=one.ids,
                sampled=np.flatnonzero(one.mask),
                allowed=None,
                temperature=1.0,
                columns={},
            )
            logprobs.append(score(bench.worker.decoder, pack([example], [0]), 1024)[0].sum())
        loss = -(advantage * logprobs[0] - advantage * logprobs[1]) / 4
        grads = torch.autograd.grad(loss, list(names.values()))
        for name, grad in zip(names, grads, strict=True):
            views[name].copy_(grad)
        norm = bench.update(group).metrics["update/grad_norm"]
        lanes = bench.worker.policy.shared.lanes
    torch.testing.assert_close(lanes[0] + lanes[1], expected, atol=1e-5, rtol=1e-3)
    assert norm == pytest.approx(float(expected.norm()), rel=1e-3)


@pytest.mark.parametrize(
    ("epochs", "mini_batch", "steps"), [(1, 8, 1), (2, 8, 2), (1, 2, 4), (3, 4, 6)]
)
def test_upstream_never_reads_its_epochs_and_here_each_takes_its_steps(
    folder, epochs, mini_batch, steps
):
    with Bench(folder, update={"epochs": epochs, "miniBatch": mini_batch}) as bench:
        updated = bench.update(as_sampled(bench, EIGHT))
        counted = bench.trainers.policy.adamw.steps
    assert updated.steps == counted == steps
    assert updated.metrics["update/tokens"] == 16.0 * epochs


def test_every_episode_is_in_every_epoch_once(folder):
    with Bench(folder, update={"epochs": 3, "miniBatch": 3}) as bench:
        batches = list(bench.learner._mini_batches(8, 5))
    assert [len(batch) for batch in batches] == [3, 3, 2] * 3
    orders = [list(chain(*batches[i : i + 3])) for i in (0, 3, 6)]
    assert all(sorted(order) == list(range(8)) for order in orders)
    assert orders[0] != orders[1]


def test_a_gradient_that_is_not_finite_moves_nothing(folder):
    with Bench(folder) as bench:
        before = bench.vector
        bench.worker.policy.shared.lanes[0].fill_(torch.nan)
        assert not np.isfinite(bench.trainers.policy.step(1e-3))
        assert torch.equal(bench.vector, before)


class BrokenSteps:
    """Trainers of a bench whose gradients are not finite in some steps of the policy."""

    def __init__(self, bench, broken):
        self._trainers, self._lanes = bench.trainers, bench.worker.policy.shared.lanes
        self._broken = broken
        self.unmoved = []
        """What the objective of each step of the policy says."""

    def __getattr__(self, name):
        return getattr(self._trainers, name)

    def differentiate(self, objective, examples):
        self.unmoved.append(objective.unmoved)
        return self._trainers.differentiate(objective, examples)

    def step(self, model, learning_rate):
        if len(self.unmoved) - 1 in self._broken:
            self._lanes[0].fill_(torch.nan)
        return self._trainers.step(model, learning_rate)


def test_skipped_steps_are_counted_and_leave_the_policy_unmoved(folder):
    with Bench(folder, update={"miniBatch": 2}) as bench:
        group = as_sampled(bench, EIGHT)
        trainers = BrokenSteps(bench, broken={0, 2})
        updated = Learner(bench.spec, trainers).update(group, 0, 1e-3)
        taken = bench.trainers.policy.adamw.steps
    # Eight episodes in mini-batches of two: steps 0 and 2 of four are skipped.
    assert trainers.unmoved == [True, True, False, False]
    assert (updated.steps, taken) == (4, 2)
    assert updated.metrics["update/skipped_steps"] == 2.0
    assert np.isnan(updated.metrics["update/grad_norm"])


def test_no_skipped_step_is_no_metric(folder):
    with Bench(folder, update={"miniBatch": 2}) as bench:
        updated = bench.update(as_sampled(bench, EIGHT))
    assert "update/skipped_steps" not in updated.metrics
    assert updated.metrics["update/grad_norm"] > 0


def test_an_update_without_episodes_has_no_gradient_norm(folder):
    with Bench(folder) as bench:
        updated = bench.update([])
    assert updated.steps == 0
    assert not updated.metrics.keys() & {"update/grad_norm", "update/skipped_steps"}
    assert (updated.metrics["update/episodes"], updated.metrics["update/tokens"]) == (0.0, 0.0)


def test_lost_episodes_and_episodes_without_a_sampled_token_are_left_out(folder):
    empty = replace(GROUP[0], mask=np.zeros(6, dtype=bool))
    lost = episode(2, 0.0, ending=Ending.LOST)
    with Bench(folder) as bench:
        before = bench.vector
        updated = bench.update([empty, lost])
        assert torch.equal(bench.vector, before)
        some = bench.update([*as_sampled(bench, GROUP), lost, empty])
    assert (updated.steps, updated.metrics["update/episodes"]) == (0, 0.0)
    assert some.metrics["update/episodes"] == 2.0


def test_groups_that_earned_the_same_are_left_out(folder):
    same = [episode(i, 1.0, group=3) for i in range(4)]
    with Bench(folder) as bench:
        assert bench.update(as_sampled(bench, same)).steps == 0


@pytest.mark.parametrize("mode", ["off", "truncate"])
def test_the_mismatch_between_sampler_and_trainer_is_measured_in_either_mode(folder, mode):
    changes = {"algorithm": {"importanceSampling": {"mode": mode}}, "update": {"miniBatch": 4}}
    with Bench(folder, **changes) as bench:
        exact = as_sampled(bench, EIGHT)
        off = [
            replace(e, logprobs=np.where(e.mask, e.logprobs - np.float32(0.1), 0)) for e in exact
        ]
        found = bench.update(off)
    # k3 of a log-ratio of 0.1: e^0.1 - 1 - 0.1.
    assert found.metrics["update/mismatch_kl"] == pytest.approx(0.0051709, rel=1e-2)
    assert found.steps == 2


class CountedPasses:
    """Trainers of a bench that record for how many examples log-probabilities are computed."""

    def __init__(self, bench):
        self._trainers = bench.trainers
        self.passes = []

    def __getattr__(self, name):
        return getattr(self._trainers, name)

    def logprobs(self, examples, *, reference=False):
        self.passes.append(("reference" if reference else "old", len(examples)))
        return self._trainers.logprobs(examples, reference=reference)


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"update": {"miniBatch": 8}}, []),
        ({"update": {"miniBatch": 4}}, [("old", 4)]),
        ({"update": {"miniBatch": 2}}, [("old", 2)] * 3),
        ({"update": {"miniBatch": 4, "epochs": 2}}, [("old", 4)] * 2),
        ({"model": {"lora": {"rank": 2, "alpha": 4, "dropout": 0.1}}}, [("old", 4)] * 2),
        ({"algorithm": {"importanceSampling": {"mode": "off"}}}, []),
        ({"algorithm": {"kl": {"coefficient": 0.1}}}, [("old", 4), ("reference", 8)]),
        ({"algorithm": {"name": "ppo", "critic": {"warmupIterations": 1}}}, []),
    ],
)
def test_only_what_no_pass_with_a_gradient_gives_is_computed_before(folder, changes, passes):
    """Eight episodes. The first mini-batch has its log-probabilities before the update from its
    pass with the gradient, unless it is passed again after a step, or with dropout."""
    with Bench(folder, **changes) as bench:
        trainers = CountedPasses(bench)
        Learner(bench.spec, trainers).update(as_sampled(bench, EIGHT), 0, 1e-3)
    assert trainers.passes == passes


def test_without_a_critic_to_warm_up_all_columns_are_computed_in_the_first_iteration(folder):
    algorithm = {"name": "ppo", "kl": {"coefficient": 0.1}, "critic": {"warmupIterations": 1}}
    with Bench(folder, algorithm=algorithm) as bench:
        trainers = CountedPasses(bench)
        learner = Learner(bench.spec, trainers)
        warmed = learner.update(as_sampled(bench, EIGHT), 0, 1e-3)
        assert (warmed.steps, trainers.passes) == (0, [])
        learner.update(as_sampled(bench, EIGHT), 1, 1e-3)
    assert trainers.passes == [("old", 4), ("reference", 8)]


def test_rounding_in_bfloat16_alone_clips_nothing_of_a_policy_that_does_not_move(tmp_path):
    """GSPO clips from 3e-4 on. An episode has the same neighbours in its pack with and without the
    gradient, so its ratio is 1. The last norm is scaled for an entropy like a trained policy's."""
    model = {
        "dtype": "bfloat16",
        "context": 256,
        "tiny": {"layers": 2, "hidden": 64, "heads": 2, "kvHeads": 2, "intermediate": 128},
    }
    words = [f"w{i}" for i in range(300)]
    draws = np.random.default_rng(0)
    replies = [tuple(draws.integers(5, 200, draws.integers(20, 120)).tolist()) for _ in range(16)]
    raw = [
        episode(i % 4, float(i % 2), group=i // 4, reply=reply) for i, reply in enumerate(replies)
    ]
    changes = {"algorithm": {"name": "gspo"}, "update": {"miniBatch": 4, "microBatchTokens": 256}}
    made = make_tiny(spec(model=model).model, words, 0, tmp_path)
    with Bench(made, model=model, **changes) as bench:
        names = [name for name, _ in bench.worker.decoder.named_parameters()]
        weights = bench.worker.policy.split(bench.worker.policy.shared.vector)
        weights[[name for name in names if weights[name].dim() == 1][-1]].mul_(8.0)
        bench.worker.policy.refresh()
        updated = bench.update(as_sampled(bench, raw), rate=0.0)
    assert updated.steps == 4
    assert updated.metrics["update/clipped"] == 0.0
    assert updated.metrics["update/ratio"] == 1.0


@pytest.mark.parametrize("mode", ["off", "truncate"])
def test_tokens_of_earlier_weights_count_as_lag_and_not_as_mismatch(folder, mode):
    """Four episodes of the present weights, version 7, off by 0.1 nats; four of version 6, by 0.2.
    k3 of log-ratios of 0.1 and 0.2: e^0.1 - 1.1 and e^0.2 - 1.2."""
    changes = {"algorithm": {"importanceSampling": {"mode": mode}}, "update": {"miniBatch": 8}}
    with Bench(folder, **changes) as bench:
        exact = as_sampled(bench, EIGHT)
        fresh, stale = older(exact[:4], 0.1), older(exact[4:], 0.2)
        fresh = [replace(e, turns=(replace(e.turns[0], version=7),)) for e in fresh]
        stale = [replace(e, turns=(replace(e.turns[0], version=6),)) for e in stale]
        mixed = bench.learner.update([*fresh, *stale], 0, 0.0, version=7).metrics
        none_fresh = bench.learner.update(stale, 0, 0.0, version=7).metrics
        none_stale = bench.learner.update(fresh, 0, 0.0, version=7).metrics
    assert mixed["update/mismatch_kl"] == pytest.approx(0.0051709, rel=1e-2)
    assert mixed["update/lag_kl"] == pytest.approx(0.0214028, rel=1e-2)
    assert "update/mismatch_kl" not in none_fresh
    assert none_fresh["update/lag_kl"] == pytest.approx(0.0214028, rel=1e-2)
    assert "update/lag_kl" not in none_stale
    assert not any(name.endswith(("/fresh", "/stale")) for name in mixed)


def older(episodes, nats):
    """The episodes as if sampled by weights that gave each token `nats` less."""
    return [
        replace(e, logprobs=np.where(e.mask, e.logprobs - np.float32(nats), 0)) for e in episodes
    ]


@pytest.mark.parametrize(("nats", "weight"), [(0.0, 1.0), (0.5, 1.6487), (1.0, 2.0)])
def test_episodes_of_older_weights_are_weighed_and_not_clipped(folder, nats, weight):
    """Decoupled PPO (arXiv 2505.24298, section 5.2): what is clipped is the ratio to the weights
    that the update began with, which is 1 in the first step; the behaviour policy's probability
    only weighs. e^0.5 = 1.6487 is beyond clipHigh and counts all the same; e^1 is cut to 2."""
    gradients = []
    for behind in (0.0, nats):
        with Bench(folder, update={"maxGradNorm": 1000.0}) as bench:
            updated = bench.update(older(as_sampled(bench, GROUP), behind))
            lanes = bench.worker.policy.shared.lanes
            gradients.append((lanes[0] + lanes[1]).clone())
    assert updated.metrics["update/ratio"] == pytest.approx(1.0, abs=1e-5)
    assert updated.metrics["update/clipped"] == 0.0
    torch.testing.assert_close(gradients[1], weight * gradients[0], atol=1e-6, rtol=1e-4)


def test_without_correction_the_ratio_is_to_the_older_weights_and_is_clipped(folder):
    with Bench(folder, algorithm={"importanceSampling": {"mode": "off"}}) as bench:
        updated = bench.update(older(as_sampled(bench, GROUP), 0.5))
    assert updated.metrics["update/ratio"] == pytest.approx(1.6487, rel=1e-3)
    # The two tokens of the rewarded episode; dual clip spares those of the other.
    assert updated.metrics["update/clipped"] == 0.5


def test_ppo_moves_its_critic_and_waits_for_it_while_it_warms_up(folder):
    changes = {"algorithm": {"name": "ppo", "critic": {"warmupIterations": 1}}}
    with Bench(folder, **changes) as bench:
        values = bench.worker.values.shared.vector
        policy, critic = bench.vector, values.clone()
        first = bench.update(as_sampled(bench, GROUP), iteration=0)
        assert torch.equal(bench.vector, policy)
        assert not torch.equal(values, critic)
        second = bench.update(as_sampled(bench, GROUP), iteration=1)
        assert not torch.equal(bench.vector, policy)
    assert (first.steps, second.steps) == (0, 1)
    assert "update/grad_norm" not in first.metrics
    assert second.metrics["update/grad_norm"] > 0
    assert first.metrics["update/value_loss"] > 0


def test_weight_decay_leaves_norms_alone(folder):
    """Without a gradient (equal advantages of 0), a step only decays: by 1 - 0.1 * 0.5."""
    with Bench(folder, update={"weightDecay": 0.5}) as bench:
        for lane in bench.worker.policy.shared.lanes:
            lane.zero_()
        before = {n: p.detach().clone() for n, p in bench.worker.decoder.named_parameters()}
        bench.trainers.step("policy", 0.1)
        after = dict(bench.worker.decoder.named_parameters())
    norms = [name for name, weight in before.items() if weight.dim() == 1]
    assert norms
    for name, weight in before.items():
        factor = 1.0 if name in norms else 0.95
        torch.testing.assert_close(after[name].detach(), factor * weight)


def test_the_critic_follows_the_learning_rate_schedule(folder):
    """A first AdamW step moves a weight by the learning rate: 1e-3, then a tenth of it."""
    moved = []
    for iteration in (0, 1):
        changes = {
            "algorithm": {"name": "ppo"},
            "update": {"schedule": "linear", "finalShare": 0.1},
        }
        with Bench(folder, **changes) as bench:
            values = bench.worker.values.shared.vector
            before = values.clone()
            bench.update(as_sampled(bench, GROUP), iteration=iteration)
            moved.append(float((values - before).abs().max()))
    assert moved[1] == pytest.approx(0.1 * moved[0], rel=1e-2)


def test_the_penalty_is_measured_against_the_weights_of_the_folder(folder):
    with Bench(folder, algorithm={"kl": {"coefficient": 0.1}}) as bench:
        first = bench.update(as_sampled(bench, GROUP))
        assert first.metrics["update/kl"] == pytest.approx(0.0, abs=1e-6)
        for _ in range(3):
            last = bench.update(as_sampled(bench, GROUP))
    assert last.metrics["update/kl"] > 1e-5


LORA = {"lora": {"rank": 2, "alpha": 4}}


def demonstrations():
    """Examples to imitate."""
    return [
        example(e, {"weight": np.ones(int(e.mask.sum()), dtype=np.float32)})
        for e in (GROUP[0], EIGHT[3])
    ]


@pytest.mark.parametrize("model", [{}, {"dtype": "bfloat16"}, LORA], ids=["full", "bf16", "lora"])
def test_after_a_warm_start_the_reference_is_the_policy_it_ended_with(folder, model):
    with Bench(folder, algorithm={"kl": {"coefficient": 0.1}}, model=model) as bench:
        for _ in range(3):
            bench.learner.imitate(demonstrations(), 0.01)
        bench.learner.set_start()
        group = as_sampled(bench, GROUP)
        first = bench.update(group, rate=0.01)
        second = bench.update(group, rate=0.01)
    assert first.metrics["update/kl"] == pytest.approx(0.0, abs=1e-6)
    assert second.metrics["update/kl"] > 1e-6  # the reference stays where it is


@pytest.mark.parametrize("model", [{}, LORA], ids=["full", "lora"])
def test_after_a_warm_start_the_critic_begins_with_its_weights(folder, model):
    with Bench(folder, algorithm={"name": "ppo"}, model=model) as bench:
        bench.learner.imitate(demonstrations(), 0.01)
        bench.learner.set_start()
        trunk = bench.worker.critic.decoder.state_dict()
        weights = dict(bench.trainers.weights())
    assert trunk.keys() == weights.keys()
    for name, weight in weights.items():
        assert torch.equal(trunk[name], weight), name


@pytest.mark.parametrize("model", ["policy", "critic"])
def test_gradient_checkpointing_recomputes_the_blocks_of_both_models(folder, model):
    """The only block of the model runs again in each backward pass, and weights are the same."""
    runs, weights = {}, {}
    for recompute in (False, True):
        changes = {
            "algorithm": {"name": "ppo"},
            "update": {"gradientCheckpointing": recompute},
        }
        with Bench(folder, **changes) as bench:
            group, worker = as_sampled(bench, GROUP), bench.worker
            decoder = worker.decoder if model == "policy" else worker.critic.decoder
            with_gradients = []
            decoder.model.layers[0].register_forward_pre_hook(
                lambda *_, seen=with_gradients: seen.append(torch.is_grad_enabled())
            )
            bench.update(group)
            runs[recompute] = sum(with_gradients)
            shared = worker.policy.shared if model == "policy" else worker.values.shared
            weights[recompute] = shared.vector.clone()
    assert runs == {False: 2, True: 4}  # of the two packs
    assert torch.equal(weights[False], weights[True])


def test_bfloat16_keeps_float32_masters(folder):
    with Bench(folder, model={"dtype": "bfloat16"}) as bench:
        before = bench.vector
        updated = bench.update(as_sampled(bench, GROUP), rate=1e-6)
        assert bench.vector.dtype == torch.float32
        # A step of 1e-6 would vanish in bfloat16.
        assert float((bench.vector - before).abs().max()) == pytest.approx(1e-6, rel=0.1)
    assert np.isfinite(updated.metrics["update/grad_norm"])


def test_exported_bfloat16_weights_are_those_after_the_last_step(folder):
    with Bench(folder, model={"dtype": "bfloat16"}) as bench:
        bench.update(as_sampled(bench, GROUP), rate=0.1)
        exported_weights = dict(bench.trainers.weights())
        masters = bench.worker.policy.split(bench.vector)
    for name, master in masters.items():
        assert torch.equal(exported_weights[name], master.to(torch.bfloat16)), name


def test_lora_moves_adapters_alone(folder):
    lora = {"lora": {"rank": 2, "alpha": 4}}
    with Bench(folder, model=lora) as bench:
        state = {n: p.clone() for n, p in bench.worker.decoder.state_dict().items()}
        bench.update(as_sampled(bench, GROUP))
        after = bench.worker.decoder.state_dict()
        moved = {name for name, tensor in state.items() if not torch.equal(after[name], tensor)}
        plain = export_weights(bench.worker.decoder)
    assert moved
    assert all(".lora_" in name for name in moved)
    assert not any("lora" in name for name in plain)


def test_two_processes_give_the_bits_of_one(folder):
    changes = {"update": {"miniBatch": 4, "microBatchTokens": 64}}
    with Bench(folder, **changes) as bench:
        for iteration in range(2):
            bench.update(EIGHT, iteration)
        alone = bench.vector
    setup = Setup(spec=spec(**changes), folder=folder, device="cpu")
    lead = Worker(setup)
    pool = ProcessPool(lead, setup, PendingWorkers(2, fork_server.fork_server_context()))
    try:
        learner = Learner(setup.spec, PoolTrainers(setup.spec, lead, pool))
        for iteration in range(2):
            learner.update(EIGHT, iteration, 1e-3)
        together = lead.policy.shared.vector.clone()
    finally:
        pool.close()
    assert torch.equal(alone, together)
