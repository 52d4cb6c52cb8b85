"""Updates of a model that transformers computes, in the processes without Ray."""

import pytest
import torch
from foreign_models import save_model
from learner_bench import GROUP, Bench, as_sampled, spec

from agentrl_components.dialogue import word_tokenizer
from agentrl_components.errors import ModelError
from agentrl_components.sharded.model import describe
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import example


def folder_of(family, tmp_path):
    save_model(family, tmp_path)
    word_tokenizer.save(word_tokenizer.word_tokenizer(("go", "left")), tmp_path)
    return tmp_path


def test_dropout_of_adapters_leaves_the_models_own_off(tmp_path):
    folder = folder_of("gpt2", tmp_path)  # it has dropout of 0.1
    some = [example(e, {"weight": e.logprobs[e.mask] * 0 + 1}) for e in GROUP]
    losses = []
    for dropout in (0.0, 0.5):
        adapters = {"rank": 2, "targets": ["c_attn"], "dropout": dropout}
        correction = {"importanceSampling": {"mode": "truncate"}}
        with Bench(folder, model={"lora": adapters}, algorithm=correction) as bench:
            asked = Imitation(total_weight=4.0, chunk=64)
            losses.append(bench.trainers.differentiate(asked, some)["loss"])
    assert losses[0] == losses[1]  # the products of new adapters are 0


def test_a_context_that_exceeds_the_positions_of_the_model_is_refused_when_it_is_opened(tmp_path):
    folder = folder_of("gpt2", tmp_path)
    wanted = r"spec\.model\.context: is 129, and the model has 128 positions; set it to 128 or less"
    with pytest.raises(ModelError, match=wanted):
        Bench(folder, model={"context": 129})
    with pytest.raises(ModelError, match=wanted):
        describe(folder, spec(model={"context": 129}))


# Gemma 4 has buffers that are saved with the weights; OPT has hidden states of another width.
@pytest.mark.parametrize(
    ("family", "name"),
    [("gpt_neox", "grpo"), ("gpt_neox", "ppo"), ("gemma4_text", "ppo"), ("opt", "ppo")],
)
def test_the_learner_trains_a_model_of_transformers(family, name, tmp_path):
    folder = folder_of(family, tmp_path)
    with Bench(folder, algorithm={"name": name, "kl": {"coefficient": 0.1}}) as bench:
        bench.learner.set_start()
        before = bench.vector
        updated = bench.update(as_sampled(bench, GROUP))
        assert updated.steps > 0
        assert updated.metrics["update/mismatch_kl"] == pytest.approx(0.0, abs=1e-6)
        assert updated.metrics["update/kl"] == pytest.approx(0.0, abs=1e-6)
        assert not torch.equal(bench.vector, before)
