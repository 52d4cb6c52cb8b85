"""`VllmEngine` with a real vLLM, compared with transformers. One tiny model, one engine."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch
from held_vllm import HeldVllm
from needs_vllm import NEEDS_VLLM
from safetensors.torch import save_file
from tiny_qwen import (
    ACTIONS,
    CONTEXT,
    FREE,
    LOOSE,
    STOP,
    ask,
    expected,
    logits_after,
    make_model,
    reply_probability,
    weights_of,
)

from agentrl_components.engines.engine import Request, Stop
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.errors import EngineError, ModelError
from agentrl_components.model.load import WEIGHTS, export_weights, open_decoder
from agentrl_components.spec.fields.rollout import Interrupt

pytestmark = [*NEEDS_VLLM, pytest.mark.asyncio(loop_scope="module")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The engine under test and the transformers model it is compared with."""

    engine: VllmEngine
    vllm: HeldVllm
    model: Any
    folder: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory):
    # With the libraries of deep search loaded: they hold objects that vLLM's start cannot read.
    importlib.import_module("bm25s")
    folder = tmp_path_factory.mktemp("qwen")
    model = make_model(0)
    model.save_pretrained(folder)
    # with the tied head, which transformers leaves out, but the files of Qwen's models have
    head = {"lm_head.weight": model.get_input_embeddings().weight.detach().clone()}
    save_file(weights_of(model) | head, folder / WEIGHTS, metadata={"format": "pt"})
    options = VllmOptions(context=CONTEXT, cache_bytes=16 << 20)
    vllm: list[HeldVllm] = []

    def start(*arguments: Any) -> HeldVllm:
        vllm.append(HeldVllm(*arguments))
        return vllm[0]

    engine = VllmEngine(folder, options, start=start)
    yield Bench(engine=engine, vllm=vllm[0], model=model, folder=folder)
    await engine.close()


async def test_the_model_runner_on_a_cpu_is_v1_unless_v2_is_asked_for(bench: Bench):
    asked = os.environ["VLLM_USE_V2_MODEL_RUNNER"]  # test_runner_v2.py asks for V2
    assert bench.vllm.vllm_config.use_v2_model_runner is (asked == "1")


async def test_logprobs_equal_those_of_transformers(bench: Bench):
    prompts = [[5, 6, 7], list(range(3, 60)), [90] * 20]
    replies = await asyncio.gather(
        *(bench.engine.generate(ask(p, i, LOOSE)) for i, p in enumerate(prompts))
    )
    for prompt, reply in zip(prompts, replies, strict=True):
        assert reply.sampled == (True,) * 12
        assert reply.allowed is None
        assert reply.logprobs == pytest.approx(expected(bench.model, prompt, reply.ids), abs=1e-4)


async def test_logprobs_include_the_temperature(bench: Bench):
    reply = await bench.engine.generate(ask([5, 6], 1, replace(LOOSE, temperature=0.5)))
    logprobs_RV = (logits_after(bench.model, [5, 6], reply.ids) / 0.5).log_softmax(-1)
    picked = logprobs_RV.gather(1, torch.tensor(reply.ids)[:, None])[:, 0].tolist()
    assert reply.logprobs == pytest.approx(picked, abs=1e-4)


async def test_logprobs_are_renormalised_over_the_top_p_nucleus(bench: Bench):
    reply = await bench.engine.generate(ask([5, 6], 1, replace(LOOSE, top_p=0.3)))
    for probs_V, token, logprob in zip(
        logits_after(bench.model, [5, 6], reply.ids).softmax(-1),
        reply.ids,
        reply.logprobs,
        strict=True,
    ):
        likeliest = probs_V.sort(descending=True).values
        size = int((likeliest.cumsum(0) < 0.3).sum()) + 1
        inside = float(likeliest[:size].sum())
        assert logprob == pytest.approx(float((probs_V[token] / inside).log()), abs=1e-4)


async def test_temperature_zero_is_greedy(bench: Bench):
    reply = await bench.engine.generate(ask([5, 6], 1, replace(LOOSE, temperature=0.0)))
    best = logits_after(bench.model, [5, 6], reply.ids).argmax(-1).tolist()
    assert list(reply.ids) == best
    assert reply.logprobs == pytest.approx(expected(bench.model, [5, 6], reply.ids), abs=1e-4)


async def test_the_tokens_of_a_seed_do_not_depend_on_the_rest_of_the_batch(bench: Bench):
    alone = await bench.engine.generate(ask([8, 9, 10], 77, LOOSE))
    others = [ask(list(range(3, 5 + n)), n, LOOSE) for n in range(20)]
    together = await asyncio.gather(
        *map(bench.engine.generate, [*others[:7], ask([8, 9, 10], 77, LOOSE), *others[7:]])
    )
    assert together[7].ids == alone.ids
    assert together[7].logprobs == pytest.approx(alone.logprobs, abs=1e-5)


async def test_different_seeds_give_different_replies(bench: Bench):
    replies = await asyncio.gather(
        *(bench.engine.generate(ask([8, 9, 10], seed, LOOSE)) for seed in range(10))
    )
    assert len({reply.ids for reply in replies}) == 10


async def test_a_64_bit_seed_is_accepted(bench: Bench):
    reply = await bench.engine.generate(ask([8], 2**64 - 1, LOOSE))
    assert len(reply.ids) == 12


async def test_a_stop_token_ends_the_reply_and_is_its_last_id(bench: Bench):
    stops = replace(FREE, stop=tuple(range(3, 96, 4)), max_tokens=100)
    replies = await asyncio.gather(
        *(bench.engine.generate(ask([5], seed, stops)) for seed in range(8))
    )
    for reply in replies:
        assert reply.stop is Stop.STOP
        assert [token in stops.stop for token in reply.ids].index(True) == len(reply.ids) - 1
        assert len(reply.logprobs) == len(reply.ids)


async def test_a_reply_without_a_stop_token_ends_at_max_tokens(bench: Bench):
    reply = await bench.engine.generate(ask([5], 0, replace(LOOSE, max_tokens=7)))
    assert reply.stop is Stop.LENGTH
    assert len(reply.ids) == 7


async def test_a_reply_ends_at_the_end_of_the_context(bench: Bench):
    reply = await bench.engine.generate(ask([5] * 250, 0, LOOSE))
    assert reply.stop is Stop.LENGTH
    assert len(reply.ids) == 6


async def test_a_prompt_that_exceeds_the_context_is_rejected_and_the_engine_remains_usable(
    bench: Bench,
):
    with pytest.raises(EngineError, match="256"):
        await bench.engine.generate(ask([5] * 300, 0))
    assert (await bench.engine.generate(ask([5], 0))).ids


async def test_admissible_replies_have_the_frequencies_of_the_model(bench: Bench):
    prompt, count = [5, 6, 7], 400
    warm = replace(FREE, temperature=2.0)
    replies = await asyncio.gather(
        *(bench.engine.generate(ask(prompt, s, warm, admissible=ACTIONS)) for s in range(count))
    )
    assert {reply.stop for reply in replies} == {Stop.STOP}
    seen = Counter(reply.ids for reply in replies)
    assert set(seen) <= {(*action, STOP) for action in ACTIONS}
    for action in ACTIONS:
        probability = reply_probability(bench.model, prompt, (*action, STOP), 2.0)
        deviation = (count * probability * (1 - probability)) ** 0.5
        assert abs(seen[*action, STOP] - count * probability) < 4 * deviation + 1


async def test_admissible_logprobs_are_renormalised_over_the_choices(bench: Bench):
    prompt = list(range(3, 40))
    hot = replace(FREE, temperature=1.5)
    replies = await asyncio.gather(
        *(bench.engine.generate(ask(prompt, s, hot, admissible=ACTIONS)) for s in range(12))
    )
    for reply in replies:
        assert reply.allowed is not None
        assert reply.sampled == tuple(len(choices) > 1 for choices in reply.allowed)
        for logits_V, token, logprob, choices in zip(
            logits_after(bench.model, prompt, reply.ids) / 1.5,
            reply.ids,
            reply.logprobs,
            reply.allowed,
            strict=True,
        ):
            among = logits_V[list(choices)].log_softmax(-1)[choices.index(token)]
            assert logprob == pytest.approx(float(among), abs=1e-4)


async def test_admissible_logprobs_are_those_of_a_request_for_each_choice(bench: Bench):
    from vllm import SamplingParams

    prompt = list(range(3, 40))
    replies = await asyncio.gather(
        *(bench.engine.generate(ask(prompt, s, FREE, admissible=ACTIONS)) for s in range(6))
    )
    for reply in replies:
        for place, choices in enumerate(reply.allowed or ()):
            alone = SamplingParams(
                max_tokens=1,
                allowed_token_ids=list(choices),
                logprobs=len(choices),
                detokenize=False,
            )
            output = await bench.engine._loop.sample([*prompt, *reply.ids[:place]], alone)
            (of_choice,) = output.outputs[0].logprobs
            assert reply.logprobs[place] == pytest.approx(
                of_choice[reply.ids[place]].logprob, abs=1e-4
            )


async def test_the_allowed_tokens_are_those_of_the_trie(bench: Bench):
    replies = await asyncio.gather(
        *(bench.engine.generate(ask([5], seed, FREE, admissible=ACTIONS)) for seed in range(80))
    )
    seen = {reply.ids: (reply.allowed, reply.sampled) for reply in replies}
    assert seen[10, 11, 13, 14, STOP] == (
        ((10, 20, 30), (11,), (12, 13), (14,), (STOP,)),
        (True, False, True, False, False),
    )
    assert seen[20, STOP] == (((10, 20, 30), (STOP, 21)), (True, True))


async def test_sampling_parameters_that_vllm_would_change_are_rejected(bench: Bench):
    for temperature in (0.001, 3.0):
        with pytest.raises(EngineError, match="temperature"):
            await bench.engine.generate(ask([5], 0, replace(FREE, temperature=temperature)))


async def test_a_single_admissible_action_is_not_sampled(bench: Bench):
    before = bench.engine.prompt_tokens
    reply = await bench.engine.generate(ask([5], 0, FREE, admissible=[(7, 8, 9)]))
    assert reply.ids == (7, 8, 9, STOP)
    assert reply.logprobs == (0.0,) * 4
    assert reply.sampled == (False,) * 4
    assert bench.engine.prompt_tokens == before


async def test_an_admissible_reply_is_truncated_at_max_tokens(bench: Bench):
    short = replace(FREE, max_tokens=2)
    reply = await bench.engine.generate(ask([5], 0, short, admissible=[(7, 8, 9)]))
    assert reply.ids == (7, 8)
    assert reply.stop is Stop.LENGTH


async def test_an_empty_admissible_set_is_rejected(bench: Bench):
    with pytest.raises(EngineError, match="at least one action"):
        await bench.engine.generate(ask([5], 0, FREE, admissible=[]))


async def test_the_torch_engine_gives_the_same_replies(bench: Bench):
    decoder = open_decoder(bench.folder, torch.float32, torch.device("cpu"))
    other = TorchEngine(decoder)
    greedy = replace(LOOSE, temperature=0.0, stop=(STOP,))
    prompt = list(range(70, 20, -1))
    for admissible in (None, ACTIONS):
        request = ask(prompt, 0, greedy, admissible=admissible)
        ours, theirs = await bench.engine.generate(request), await other.generate(request)
        assert replace(ours, logprobs=()) == replace(theirs, logprobs=())
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        await other.release(0)
    await other.close()
    await bench.engine.load(export_weights(decoder), 0)
    assert await bench.engine.generate(request) == ours


async def test_turns_reuse_the_prefix_cache(bench: Bench):
    ids = list(range(42, 2, -1))
    cached = []
    for turn in range(4):
        before = bench.engine.cached_tokens
        reply = await bench.engine.generate(ask(ids, turn, LOOSE))
        cached.append(bench.engine.cached_tokens - before)
        assert reply.logprobs == pytest.approx(expected(bench.model, ids, reply.ids), abs=1e-4)
        ids = [*ids, *reply.ids, *range(60, 80)]
    # Prompts of 40, 72, 104 and 136 tokens; full blocks of 32 of the previous turn are cached.
    assert cached == [0, 32, 64, 96]


async def test_the_engine_remains_usable_after_a_cancelled_request(bench: Bench):
    long = asyncio.create_task(bench.engine.generate(ask([5], 0, replace(LOOSE, max_tokens=200))))
    await asyncio.sleep(0.05)
    long.cancel()
    await asyncio.wait([long])
    assert (await bench.engine.generate(ask([5], 0))).ids


async def test_replies_use_the_loaded_weights_and_have_their_version(bench: Bench):
    other = make_model(1)
    weights = weights_of(other)
    prompt = list(range(3, 45))
    before = await bench.engine.generate(ask(prompt, 5, LOOSE))
    under_way = asyncio.create_task(bench.engine.generate(ask(prompt, 6, LOOSE)))
    await asyncio.sleep(0)
    await bench.engine.load(weights, 3)
    for tensor in weights.values():
        tensor.zero_()  # the trainer modifies its weights; the engine must have a copy
    after = await bench.engine.generate(ask(prompt, 5, LOOSE))
    await bench.engine.load(weights_of(bench.model), 4)
    again = await bench.engine.generate(ask(prompt, 5, LOOSE))

    assert (before.version, (await under_way).version) == (0, 0)
    assert (after.version, again.version) == (3, 4)
    assert after.logprobs == pytest.approx(expected(other, prompt, after.ids), abs=1e-4)
    assert after.ids != before.ids
    assert again.ids == before.ids


async def interrupted(bench: Bench, requests: Sequence[Request], how: Interrupt):
    """Replies during which the weights of `make_model(1)` came as version 3, and what the new
    weights make of the requests, and of those that go on from the tokens of the old ones."""
    await bench.engine.load(weights_of(bench.model), 2)
    replies = asyncio.gather(*map(bench.engine.generate, requests))
    await bench.vllm.after_steps(6, bench.engine.load(weights_of(make_model(1)), 3, how))
    later = await bench.engine.generate(ask([8], 0))
    found = await replies
    fresh = await asyncio.gather(*map(bench.engine.generate, requests))
    await bench.engine.load(weights_of(bench.model), 0)
    assert later.version == 3
    return found, fresh


GREEDY = replace(LOOSE, temperature=0.0, max_tokens=40)
SEVERAL = [ask(list(range(3, 43 - n)), n, replace(LOOSE, max_tokens=40)) for n in range(3)]
CHOICES = list(product((5, 6), repeat=9))


async def test_replies_that_go_on_with_new_weights_keep_the_version_of_each_token(bench: Bench):
    replies, _ = await interrupted(bench, SEVERAL, "continue")
    for request, reply in zip(SEVERAL, replies, strict=True):
        assert reply.versions is not None
        old = reply.versions.count(2)
        assert 4 <= old <= 7
        assert reply.versions == (2,) * old + (3,) * (40 - old)
        by_old, by_new = (
            expected(model, request.ids, reply.ids) for model in (bench.model, make_model(1))
        )
        assert reply.logprobs == pytest.approx(by_old[:old] + by_new[old:], abs=1e-4)


async def test_a_reply_that_goes_on_has_the_tokens_of_the_torch_engine(bench: Bench):
    request = ask(list(range(3, 43)), 0, GREEDY)
    (reply,), _ = await interrupted(bench, [request], "continue")
    old = reply.versions.count(2)
    for model, ids, start, end in (
        (bench.model, request.ids, 0, old),
        (make_model(1), [*request.ids, *reply.ids[:old]], old, 40),
    ):
        model.save_pretrained(bench.folder.parent / "other")
        decoder = open_decoder(bench.folder.parent / "other", torch.float32, torch.device("cpu"))
        engine = TorchEngine(decoder)
        whole = await engine.generate(ask(ids, 0, replace(GREEDY, max_tokens=end - start)))
        assert reply.ids[start:end] == whole.ids
        assert reply.logprobs[start:end] == pytest.approx(whole.logprobs, abs=1e-4)
        await engine.close()


async def test_an_admissible_reply_goes_on_with_the_choices_of_the_new_weights(bench: Bench):
    prompt = list(range(3, 43))
    (reply,), _ = await interrupted(bench, [ask(prompt, 0, FREE, admissible=CHOICES)], "continue")
    old = reply.versions.count(2)
    assert 4 <= old <= 7
    assert reply.ids[:-1] in CHOICES
    assert reply.versions == (2,) * old + (3,) * (10 - old)
    for place in range(9):
        model = bench.model if place < old else make_model(1)
        logits_V = logits_after(model, prompt, reply.ids)[place]
        among = logits_V[[5, 6]].log_softmax(-1)[reply.ids[place] - 5]
        assert reply.logprobs[place] == pytest.approx(float(among), abs=1e-4)


async def test_replies_that_are_aborted_are_those_of_the_new_weights(bench: Bench):
    requests = [*SEVERAL, ask(list(range(3, 43)), 0, FREE, admissible=CHOICES)]
    replies, fresh = await interrupted(bench, requests, "abort")
    for reply, other in zip(replies, fresh, strict=True):
        assert replace(reply, logprobs=()) == replace(other, logprobs=())
        assert reply.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert (reply.version, reply.versions) == (3, None)


async def test_a_reply_that_is_cancelled_while_weights_are_loaded_is_not_sampled_again(
    bench: Bench,
):
    reply = asyncio.create_task(bench.engine.generate(SEVERAL[0]))
    await bench.vllm.after_steps(6, bench.engine.start_update("continue"))
    reply.cancel()
    await asyncio.wait([reply])
    assert reply.cancelled()
    await bench.engine.update(weights_of(bench.model))
    await bench.engine.finish_update(0)
    assert (await bench.engine.generate(ask([5, 6], 0))).ids


async def test_weights_can_be_loaded_right_after_a_cancelled_request(bench: Bench):
    for pause in (0.0, 0.02):
        long = ask(list(range(3, 45)), 0, replace(LOOSE, max_tokens=200))
        reply = asyncio.create_task(bench.engine.generate(long))
        await asyncio.sleep(pause)
        reply.cancel()
        await bench.engine.load(weights_of(bench.model), 5)
        after = await bench.engine.generate(ask([5, 6], 0, LOOSE))
        assert after.version == 5
        assert after.logprobs == pytest.approx(expected(bench.model, [5, 6], after.ids), abs=1e-4)


async def test_mismatched_weights_are_rejected_and_the_current_ones_kept(bench: Bench):
    before = await bench.engine.generate(ask([5], 0))
    weights = weights_of(bench.model)
    del weights["model.norm.weight"]
    weights["model.embed_tokens.weight"] = torch.zeros(3, 4)
    weights["model.extra"] = torch.zeros(1)
    with pytest.raises(EngineError) as refusal:
        await bench.engine.load(weights, 9)
    assert str(refusal.value) == (
        "the new weights do not fit the model: model.norm.weight is missing; "
        "model.embed_tokens.weight has shape (3, 4), not (96, 128); model.extra is unknown"
    )
    assert await bench.engine.generate(ask([5], 0)) == before


async def test_weights_can_be_loaded_in_parts(bench: Bench):
    other = make_model(2)
    await bench.engine.start_update()
    for name, tensor in weights_of(other).items():
        await bench.engine.update({name: tensor})
    await bench.engine.finish_update(6)
    reply = await bench.engine.generate(ask([5, 6, 7], 0, LOOSE))
    await bench.engine.load(weights_of(bench.model), 7)
    assert reply.version == 6
    assert reply.logprobs == pytest.approx(expected(other, [5, 6, 7], reply.ids), abs=1e-4)


async def test_all_weights_can_be_loaded_after_an_update_that_was_dropped(bench: Bench):
    before = await bench.engine.generate(ask([5], 0))
    parts = list(weights_of(make_model(2)).items())
    await bench.engine.start_update("continue")
    # A part of a layer that packs three weights is among them.
    fused = next(place for place, (name, _) in enumerate(parts) if "q_proj.weight" in name)
    await bench.engine.update(dict(parts[: fused + 1]))
    await bench.engine.drop_update()
    await bench.engine.load(weights_of(bench.model), before.version)
    assert await bench.engine.generate(ask([5], 0)) == before


async def test_a_folder_without_a_model_is_rejected(tmp_path: Path):
    with pytest.raises(ModelError, match=r"config\.json"):
        VllmEngine(tmp_path, VllmOptions())


async def test_a_head_width_that_vllm_does_not_support_on_cpu_is_rejected(
    bench: Bench, tmp_path: Path
):
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4}))
    with pytest.raises(ModelError, match="width 16"):
        VllmEngine(tmp_path, VllmOptions())


async def test_the_number_of_torch_threads_can_still_be_set(bench: Bench):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
