from __future__ import annotations

import math
from dataclasses import replace

import pytest
from qwen import QWEN3_06B, QWEN_3B, QWEN_7B, TOY

from agentrl_components.spec import Model, RunSpec
from agentrl_pipelines.sizing.devices import DEVICES, Device
from agentrl_pipelines.sizing.disk import checkpoint_bytes
from agentrl_pipelines.sizing.duration import Throughput
from agentrl_pipelines.sizing.model_size import model_size
from agentrl_pipelines.sizing.plan import make_plan
from agentrl_pipelines.sizing.workload import phase_loads

UNIT = Device(name="unit", memory=1 << 40, flops=1e12, bandwidth=1e12)
VLLM = {"tasks": 3, "groupSize": 4, "maxTokensPerTurn": 40, "engine": "vllm"}
TOKEN = 2 * 4 * 2 * 16 * 4
"""Bytes of the keys and values of a token of TOY: 4 layers, 2 heads of 16, float32."""


def _spec(**fields) -> RunSpec:
    return RunSpec.model_validate(
        {
            "environments": [{"name": "rooms", "builtin": "corridor"}],
            "model": {"context": 1000},
            "horizon": {
                "phases": [{"maxTurns": 5, "iterations": 2}, {"maxTurns": 10, "iterations": 3}]
            },
            "rollout": {"tasks": 3, "groupSize": 4, "maxTokensPerTurn": 40},
            "evaluation": {"tasks": 1},
            **fields,
        }
    )


def test_an_episode_of_the_longest_phase_fills_the_context_and_shorter_ones_their_share():
    short, long = phase_loads(_spec())
    assert (short.length, long.length) == (500, 1000)
    assert (short.sampled, long.sampled) == (200, 400)
    assert short.episodes == long.episodes == 12
    assert (short.tokens, long.tokens) == (2 * 12 * 500, 3 * 12 * 1000)


def test_an_episode_has_no_more_sampled_tokens_than_it_is_long():
    short, long = phase_loads(_spec(model={"context": 300}))  # of 5 and 10 replies of 40 tokens
    assert (short.length, short.sampled) == (150, 150)
    assert (long.length, long.sampled) == (300, 300)


def test_stated_tokens_per_turn_replace_the_context():
    short, long = phase_loads(_spec(), tokens_per_turn=60)
    assert (short.length, long.length) == (300, 600)


def test_stated_throughputs_give_the_time_without_knowledge_of_the_device():
    assumed = Throughput(
        trained_tokens=100, sampled_tokens=50, turn_seconds=1.0, hand_over=math.inf
    )
    unknown = Device(name="unknown", memory=1 << 40, flops=0, bandwidth=0)
    plan = make_plan(_spec(), TOY, unknown, assumed)
    short = plan.phases[0].duration
    assert short is not None
    assert short.update == 12 * 500 / 100
    assert short.rollout == 12 * 200 / 50 + 5 * 1.0
    assert plan.hours == (2 * (60 + 53) + 3 * (120 + 106)) / 3600


def test_without_the_devices_speed_the_time_is_not_estimated():
    unknown = Device(name="unknown", memory=1 << 40, flops=0, bandwidth=0)
    assert make_plan(_spec(), TOY, unknown).hours is None


def test_an_update_of_one_step_costs_three_passes_at_the_stated_share_of_the_peak():
    assumed = Throughput(update_share=0.5)
    duration = make_plan(_spec(), TOY, UNIT, assumed).phases[1].duration
    assert duration is not None
    size = model_size(TOY)
    forward = 2 * (size.total - size.embedding) + 2 * 4 * 8 * 16 * 1000
    assert math.isclose(duration.update, 12 * 1000 * forward * 3 / (1e12 * 0.5))


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        # An update is three forward passes' worth for each model, and each column is one more, but
        # for the log-probabilities before the first of the steps.
        ({"algorithm": {"importanceSampling": {"mode": "off"}}}, 3),
        ({"algorithm": {"kl": {"coefficient": 0.1}}}, 3 + 1),
        ({"algorithm": {"name": "ppo"}}, 2 * 3 + 1),
        ({"update": {"miniBatch": 4}}, 3 + 2 / 3),
        ({"update": {"miniBatch": 4, "epochs": 2}}, 2 * 3 + 1),
    ],
)
def test_an_update_costs_the_passes_that_the_learner_makes(changes, passes):
    assumed = Throughput(update_share=0.5)
    usual = make_plan(_spec(), TOY, UNIT, assumed).phases[1].duration
    found = make_plan(_spec(**changes), TOY, UNIT, assumed).phases[1].duration
    assert usual is not None
    assert found is not None
    assert math.isclose(found.update, usual.update * passes / 3)


def test_the_devices_of_an_engine_share_its_operations():
    compute = {"ray": "cluster", "samplers": {"count": 1, "gpus": 2, "tensorParallel": 2}}
    assumed = Throughput(decode_share=1e9, prefill_share=0.5, turn_seconds=0)
    plan = make_plan(_spec(rollout=VLLM, compute=compute), TOY, UNIT, assumed)
    duration = plan.phases[1].duration
    assert duration is not None
    size = model_size(TOY)
    forward = 2 * (size.total - size.embedding) + 2 * 4 * 8 * 16 * 1000
    assert math.isclose(duration.rollout, 12 * 1000 * forward / (2 * 1e12 * 0.5), rel_tol=1e-6)


def test_decoding_reads_the_weights_and_half_of_the_final_cache_at_each_token():
    assumed = Throughput(decode_share=0.5, prefill_share=1e9, turn_seconds=0)
    duration = make_plan(_spec(), TOY, UNIT, assumed).phases[1].duration
    assert duration is not None
    size = model_size(TOY)
    step = (4 * size.total + 12 * TOKEN * 500) / (1e12 * 0.5)
    assert math.isclose(duration.rollout, 400 * step, rel_tol=1e-6)


def test_episodes_that_the_cache_cannot_hold_wait():
    spec = _spec(model={"context": 1000, "dtype": "float32"}, rollout=VLLM)
    size = model_size(TOY)
    # Half of the memory is the engine's: its weights, its workspace, and five episodes.
    memory = 2 * (4 * size.total + (2 << 30) + 5 * 1000 * TOKEN)
    small = Device(name="small", memory=memory, flops=1e12, bandwidth=1e12)
    plan = make_plan(spec, TOY, small)
    assert plan.phases[1].at_once == 5
    assert plan.phases[0].at_once == 10  # episodes of the first phase are half as long
    assert plan.sessions == 12  # those that wait in the engine have a session, too


def test_no_more_episodes_are_in_flight_than_rollout_concurrency():
    rollout = {"tasks": 3, "groupSize": 4, "maxTokensPerTurn": 40, "concurrency": 5}
    plan = make_plan(_spec(rollout=rollout), TOY, UNIT, Throughput(turn_seconds=100.0))
    assert [phase.at_once for phase in plan.phases] == [5, 5]
    duration = plan.phases[1].duration
    assert duration is not None
    # Three rounds for 12 episodes, each of 10 turns. The rest is less than a second.
    assert 3 * 10 * 100 < duration.rollout < 3 * 10 * 100 + 1


def test_a_checkpoint_is_the_model_and_twelve_bytes_a_trained_parameter():
    size = model_size(QWEN_7B)
    assert checkpoint_bytes(_spec(model={"dtype": "bfloat16"}), size) == 14 * size.total
    assert checkpoint_bytes(_spec(algorithm={"name": "ppo"}), size) == (4 + 12 + 12) * size.total


def test_a_7b_model_on_one_gpu_is_refused_with_the_field_to_change():
    spec = _spec(model={"dtype": "bfloat16", "context": 8192})
    (problem,) = make_plan(spec, QWEN_7B, DEVICES["h100"]).problems
    assert problem.field == "spec.compute.trainers.count"
    assert "a trainer needs" in problem.reason
    assert problem.fix.startswith(
        "set it to 2 and compute.ray to embedded and update.gradientCheckpointing to true"
    )


def test_activations_that_do_not_fit_ask_for_checkpointing():
    spec = _spec(model={"context": 65_536}, rollout=VLLM)
    small = Device(name="small", memory=7 << 30, flops=1e12, bandwidth=1e12)
    (problem,) = make_plan(spec, TOY, small).problems
    assert problem.field == "spec.update.gradientCheckpointing"
    assert problem.fix == "set it to true"


def test_an_engine_that_cannot_hold_one_episode_names_the_longest_context_that_it_can():
    update = {"gradientCheckpointing": True}
    spec = _spec(model={"context": 1_048_576}, update=update, rollout=VLLM)
    engine = 4 * model_size(TOY).total + (2 << 30) + 1000 * TOKEN
    tight = Device(name="tight", memory=2 * engine, flops=1e12, bandwidth=1e12)
    problems = make_plan(spec, TOY, tight).problems
    context = next(p for p in problems if p.field == "spec.model.context")
    assert context.fix.startswith("set it to 1,000 or less")


def test_a_cache_that_is_too_small_is_a_warning_if_some_layers_cache_less_than_is_counted():
    update = {"gradientCheckpointing": True}
    spec = _spec(model={"context": 2000}, update=update, rollout=VLLM)
    engine = 4 * model_size(TOY).total + (2 << 30) + 1000 * TOKEN
    tight = Device(name="tight", memory=2 * engine, flops=1e12, bandwidth=1e12)
    windowed = make_plan(spec, replace(TOY, partly_cached=True), tight)
    assert "spec.model.context" in [one.field for one in make_plan(spec, TOY, tight).problems]
    assert "spec.model.context" not in [one.field for one in windowed.problems]
    (warning,) = [one for one in windowed.warnings if one.field == "spec.model.context"]
    assert warning.reason == (
        "the keys and values of 2,000 tokens need 2.0 MiB, and the engine has 1.0 MiB, but some "
        "layers of this model cache less than the whole context that is counted"
    )
    in_flight = _spec(compute=TWO_ACTORS)
    plan = make_plan(in_flight, TOY, CPU_32)
    less = replace(CPU_32, memory=(plan.machine or 0) - 1000 * TOKEN)
    shape = replace(TOY, partly_cached=True)
    fields = [one.field for one in make_plan(in_flight, shape, less).warnings]
    assert "spec.rollout.concurrency" in fields
    assert make_plan(in_flight, shape, less).problems == ()
    assert make_plan(in_flight, TOY, less).problems != ()


def test_a_context_beyond_the_models_positions_is_a_warning_and_a_problem_if_they_end_there():
    stated = replace(TOY, positions=999)
    plan = make_plan(_spec(), stated, UNIT)
    assert [str(one) for one in plan.warnings] == [
        "spec.model.context: is 1,000, and config.json states 999 positions; replies beyond them "
        "may be poor; set it to 999 or less"
    ]
    assert not plan.problems
    ended = make_plan(_spec(), replace(stated, bounded=True), UNIT)
    assert not ended.warnings
    assert [str(one) for one in ended.problems] == [
        "spec.model.context: is 1,000, and the model has 999 positions; set it to 999 or less"
    ]
    assert not make_plan(_spec(), replace(TOY, positions=1000, bounded=True), UNIT).problems


def test_heads_that_the_devices_of_an_engine_cannot_divide_name_the_numbers_that_can():
    samplers = {"count": 1, "gpus": 3, "tensorParallel": 3}
    spec = _spec(rollout=VLLM, compute={"ray": "embedded", "samplers": samplers})
    spec = spec.model_copy(update={"model": Model(source="file:///toy", context=1000)})
    (problem,) = make_plan(spec, TOY, DEVICES["h100"]).problems
    assert str(problem) == (
        "spec.compute.samplers.tensorParallel: 3 does not divide the model's 8 heads; "
        "use one of 1, 2, 4, 8"
    )


@pytest.mark.parametrize(
    ("sizes", "parts", "reason"),
    [
        ({"heads": 12, "kv_heads": 2, "intermediate": 96}, 3, "2 key heads"),
        ({"heads": 12, "kv_heads": 2, "intermediate": 96}, 4, ""),  # a key head on two devices each
        ({"heads": 12, "kv_heads": 12, "intermediate": 90}, 4, "90 columns"),
    ],
)
def test_what_vllm_cannot_divide_among_its_devices_is_named(sizes, parts, reason):
    undivided = replace(TOY, **sizes).undivided(parts)
    assert undivided.startswith(reason)
    assert bool(undivided) == bool(reason)


def test_an_engine_whose_weights_exceed_its_share_of_a_device_is_refused():
    # 28.37 GiB of weights in float32 and 2 GiB of workspace.
    samplers = {"count": 1, "gpus": 1, "memoryShare": 0.5}
    spec = _spec(rollout=VLLM, compute={"ray": "embedded", "samplers": samplers})
    gpu = Device(name="small", memory=60 << 30, flops=1e12, bandwidth=1e12)
    plan = make_plan(spec, QWEN_7B, gpu)
    assert plan.engine.cache == (30 << 30) - 4 * 7_615_616_512 - (2 << 30)
    assert plan.engine.total == 4 * 7_615_616_512 + (2 << 30)
    problem = plan.problems[-1]
    assert problem.field == "spec.compute.samplers.tensorParallel"
    assert problem.reason == (
        "an engine needs 30.4 GiB per device, and its share of a small is 30.0 GiB"
    )
    assert problem.fix == "divide each engine over more devices, or use a smaller model"


CPU_32 = Device(name="cpu", memory=32 << 30, flops=0, bandwidth=0)
PACKED = 4 * (771_968 - 8_192)
"""Bytes of the copy that compiled passes read: in float32, without the embedding of 64 x 128, which
is not the head."""
TWO_ACTORS = {"ray": "embedded", "trainers": {"count": 2}, "samplers": {"count": 2}}


def test_actors_on_a_cpu_share_the_memory_of_the_machine():
    plan = make_plan(_spec(compute=TWO_ACTORS), TOY, CPU_32)
    # Two engines play 6 of 12 episodes each.
    assert plan.engine.cache == 6 * 1000 * TOKEN
    weights = 4 * model_size(TOY).total + PACKED
    assert plan.engine.total == weights + (1 << 29) + 6 * 1000 * TOKEN
    assert plan.trainer.reserve == 1 << 29
    assert plan.machine == 2 * plan.trainer.total + 2 * plan.engine.total + (3 << 29)
    assert plan.layout.devices == 1
    assert plan.problems == ()


@pytest.mark.parametrize("placement", ["colocated", "disaggregated"])
def test_a_pod_of_a_stage_without_ray_needs_the_memory_of_its_processes(placement):
    def memory_warnings(memory: int) -> list[str]:
        compute = {"workers": 2, "placement": placement, "memory": str(memory)}
        warnings = make_plan(_spec(compute=compute), TOY, CPU_32).warnings
        return [one.field for one in warnings if one.field == "spec.compute.memory"]

    plan = make_plan(_spec(compute={"workers": 2, "placement": placement}), TOY, CPU_32)
    trainer, engines = plan.trainer.total, 2 * plan.engine.total
    taken = trainer + engines if placement == "colocated" else max(trainer, engines)
    assert memory_warnings(taken) == []
    assert memory_warnings(taken * 19 // 20) == ["spec.compute.memory"]  # 1 / 1.05 is more


def test_worker_processes_sample_from_the_trainers_weights_and_have_caches_of_their_own():
    plan = make_plan(_spec(compute={"workers": 3}), TOY, CPU_32)
    assert (plan.layout.ranks, plan.layout.engines, plan.layout.lanes) == (1, 3, 2)
    assert plan.engine.weights == PACKED
    assert plan.engine.cache == 4 * 1000 * TOKEN
    one = make_plan(_spec(compute={"workers": 1}), TOY, CPU_32)
    assert plan.trainer.activations == 2 * one.trainer.activations
    assert plan.trainer.moments == one.trainer.moments


def test_worker_processes_have_copies_of_what_is_not_in_float32():
    spec = _spec(model={"context": 1000, "dtype": "bfloat16"}, compute={"workers": 2})
    assert make_plan(spec, TOY, CPU_32).engine.weights == 2 * model_size(TOY).total + PACKED


def test_actors_that_a_machine_cannot_hold_together_are_refused():
    compute = {"ray": "embedded", "trainers": {"count": 1}, "samplers": {"count": 4}}
    spec = _spec(model={"context": 1000}, compute=compute, update={"gradientCheckpointing": True})
    roomy = make_plan(spec, TOY, CPU_32)
    tight = (3 << 29) + roomy.trainer.total + 3 * roomy.engine.least(1000)
    (problem,) = make_plan(spec, TOY, replace(CPU_32, memory=tight)).problems
    assert problem.field == "spec.compute.samplers.count"
    assert problem.fix == "set it to 3 or less"


def test_episodes_in_flight_that_a_machine_cannot_hold_name_the_concurrency_that_it_can():
    plan = make_plan(_spec(compute=TWO_ACTORS), TOY, CPU_32)
    assert plan.machine is not None
    memory = plan.machine - 2 * 2 * 1000 * TOKEN  # of 6 episodes in each engine two are too many
    (problem,) = make_plan(_spec(compute=TWO_ACTORS), TOY, replace(CPU_32, memory=memory)).problems
    assert problem.field == "spec.rollout.concurrency"
    assert problem.fix == "set it to 4 or less"
    fewer = _spec(compute=TWO_ACTORS, rollout=VLLM | {"engine": "torch", "concurrency": 4})
    assert make_plan(fewer, TOY, replace(CPU_32, memory=memory)).problems == ()


def test_episodes_of_an_evaluation_are_counted_in_the_cache_and_the_sessions():
    """Regression: only those of training were counted."""
    # The last phase has 10 turns, and its episodes fill 1,000 tokens; training has 12 of them.
    twenty = {"tasks": 10, "samples": 2}
    plan = make_plan(_spec(evaluation=twenty, compute={"workers": 1}), TOY, CPU_32)
    assert plan.engine.cache == 20 * 1000 * TOKEN
    assert (plan.sessions, plan.busiest.when) == (20, "in evaluations")
    short = _spec(evaluation=twenty | {"maxTurns": 7}, compute={"workers": 1})
    assert make_plan(short, TOY, CPU_32).engine.cache == 20 * 700 * TOKEN
    two = make_plan(_spec(evaluation=twenty, compute=TWO_ACTORS), TOY, CPU_32)
    assert two.engine.cache == 10 * 1000 * TOKEN
    few = VLLM | {"engine": "torch", "concurrency": 8}
    bounded = make_plan(_spec(evaluation=twenty, compute=TWO_ACTORS, rollout=few), TOY, CPU_32)
    assert bounded.engine.cache == 8 * 1000 * TOKEN
    assert bounded.sessions == 16


def test_episodes_of_a_warm_start_are_counted_in_the_cache_if_the_model_plays_them():
    warm = {"algorithm": "filtered-imitation", "episodes": 30, "maxTurns": 5}
    plan = make_plan(_spec(warmStart=warm, compute={"workers": 1}), TOY, CPU_32)
    assert plan.engine.cache == 30 * 500 * TOKEN
    assert (plan.sessions, plan.busiest.when) == (30, "in the warm start")
    random = warm | {"algorithm": "hindsight"}
    plan = make_plan(_spec(warmStart=random, compute={"workers": 1}), TOY, CPU_32)
    assert plan.engine.cache == 12 * 1000 * TOKEN
    assert plan.sessions == 30


def test_turn_limits_of_environments_take_the_place_of_the_schedule():
    """Phases of 5 and 10 turns; one environment has limits of its own, 3 and then 7."""
    own = {"name": "rooms", "builtin": "corridor", "maxTurns": [3, 7]}
    first, second = phase_loads(_spec(environments=[own]), tokens_per_turn=100)
    assert (first.turns, second.turns) == (3, 7)
    assert (first.length, second.length) == (300, 700)

    other = {"name": "walk", "builtin": "corridor"}
    first, second = phase_loads(_spec(environments=[own, other]))
    assert (first.turns, second.turns) == (5, 10)

    longer = own | {"maxTurns": [20]}
    first, second = phase_loads(_spec(environments=[longer, other]))
    assert (first.turns, second.turns) == (20, 20)
    assert (first.length, second.length) == (1000, 1000)


def _device_warnings(compute: dict[str, object], device: Device, **rollout: object) -> list[str]:
    rollout = {"tasks": 3, "groupSize": 4} | rollout
    plan = make_plan(_spec(compute=compute, rollout=rollout), TOY, device)
    return [str(one) for one in plan.warnings if one.field.endswith(("gpus", "device"))]


def test_trainers_and_samplers_without_gpus_are_a_warning_in_a_plan_for_gpus():
    """Regression: a manifest without `gpus` was shown on GPUs, and the run computed on CPUs."""
    h100 = DEVICES["h100"]
    compute = {"ray": "embedded", "trainers": {"count": 4}, "samplers": {"tensorParallel": 2}}
    assert _device_warnings(compute, h100, engine="vllm") == [
        "spec.compute.trainers.gpus: is 0, so that trainers compute on CPUs, but this plan is one "
        "for GPUs of the kind h100; set it to 1, or plan with --device cpu",
        "spec.compute.samplers.gpus: is 0, so that samplers compute on CPUs, but this plan is one "
        "for GPUs of the kind h100; set it to 2, or plan with --device cpu",
    ]
    on_gpus = {"ray": "embedded", "trainers": {"gpus": 1}, "samplers": {"gpus": 1}}
    assert _device_warnings(on_gpus, h100) == []
    assert _device_warnings({"ray": "embedded"}, CPU_32) == []
    (default,) = _device_warnings({"ray": "embedded", "trainers": {"gpus": 1}}, h100)
    assert default.startswith("spec.compute.samplers.gpus: is 0,")


def test_a_run_on_the_cpu_is_a_warning_in_a_plan_for_gpus():
    assert _device_warnings({"device": "cpu"}, DEVICES["h100"]) == [
        "spec.compute.device: is cpu, but this plan is one for GPUs of the kind h100; set it to "
        "auto, or plan with --device cpu"
    ]
    assert _device_warnings({"device": "cpu"}, CPU_32) == []
    assert _device_warnings({}, DEVICES["h100"]) == []


ASLEEP = {
    "model": {"dtype": "bfloat16", "context": 8192},
    "rollout": {"engine": "vllm"},
    "update": {"microBatchTokens": 32_768},
}
"""vLLM sleeps while the trainer in the same process computes."""


def test_a_trainer_beside_a_sleeping_vllm_has_the_whole_gpu_but_three_gib():
    """Regression: the half that vLLM takes while it samples was missing in the update, so that runs
    that work were refused."""
    h100 = DEVICES["h100"]
    plan = make_plan(_spec(**ASLEEP), QWEN3_06B, h100)
    assert h100.memory // 2 < plan.trainer.total <= h100.memory - (3 << 30)
    assert plan.problems == ()
    # Beside a torch engine, whose cache stays, and on a GPU of its own:
    torch = make_plan(_spec(**ASLEEP | {"rollout": {}}), QWEN3_06B, h100)
    assert [one.field for one in torch.problems] == ["spec.rollout.concurrency"]
    apart = _spec(**ASLEEP, compute={"placement": "disaggregated"})
    tight = replace(h100, memory=plan.trainer.total)
    assert make_plan(apart, QWEN3_06B, tight).problems == ()
    (problem,) = make_plan(_spec(**ASLEEP), QWEN3_06B, tight).problems
    assert "and a h100 on which vLLM sleeps has" in problem.reason


def test_what_a_trainer_keeps_while_vllm_samples_has_to_fit_beside_vllms_half():
    # 22 bytes of each of 3,085,938,688 parameters: master weights and copy, two vectors of
    # gradients and two moments; and a reserve of 2 GiB.
    spec = _spec(**ASLEEP | {"update": {"microBatchTokens": 8192}})
    big = Device(name="big", memory=120 << 30, flops=1e12, bandwidth=1e12)
    plan = make_plan(spec, QWEN_3B, big)
    assert plan.trainer.resident == 22 * 3_085_938_688 + (2 << 30)
    (problem,) = plan.problems
    assert str(problem) == (
        "spec.compute.trainers.count: a trainer takes 65.2 GiB of a big while vLLM samples, and "
        "vLLM takes 60.0 GiB; set it to 2 and compute.ray to embedded, or train adapters "
        "(model.lora)"
    )
    assert make_plan(spec, QWEN_3B, replace(big, memory=131 << 30)).problems == ()
