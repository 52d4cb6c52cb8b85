"""Updates of a model that transformers computes, in the processes without Ray."""

import pytest
import torch
from foreign_models import save_model
from learner_bench import GROUP, Bench, as_sampled

from agentrl_components.dialogue import word_tokenizer


@pytest.fixture
def folder(tmp_path):
    save_model("gpt_neox", tmp_path)
    word_tokenizer.save(word_tokenizer.word_tokenizer(("go", "left")), tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_the_learner_trains_a_model_of_transformers(name, folder):
    with Bench(folder, algorithm={"name": name, "kl": {"coefficient": 0.1}}) as bench:
        bench.learner.set_start()
        before = bench.vector
        updated = bench.update(as_sampled(bench, GROUP))
        assert updated.steps > 0
        assert updated.metrics["update/mismatch_kl"] == pytest.approx(0.0, abs=1e-6)
        assert updated.metrics["update/kl"] == pytest.approx(0.0, abs=1e-6)
        assert not torch.equal(bench.vector, before)
