"""What a checkpoint holds beside weights and optimizer."""

import json
import math

import pytest
import torch
from foreign_models import save_model
from iteration_records import iteration_record
from learner_bench import GROUP, Bench, as_sampled
from transformers import AutoModelForCausalLM

from agentrl_components.dialogue import word_tokenizer
from agentrl_components.dialogue.open import generation_ends
from agentrl_components.run import saved_state
from agentrl_components.run.saved_state import TrainingState
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.open import DirectoryStore, MemoryStore


class OneWeight:
    """A learner and its trainers, of a model with one weight and no optimizer."""

    shards = None

    @property
    def trainers(self):
        return self

    def weights(self):
        yield "weight", torch.zeros(1, dtype=torch.bfloat16)

    def state(self, spool=None):
        return {}

    def restore(self, files):
        pass


def test_a_history_with_a_norm_that_is_not_finite_is_restored_and_is_json(tmp_path):
    store, learner = MemoryStore(), OneWeight()
    for name in ("model", "spool"):
        (tmp_path / name).mkdir()
    history = [
        iteration_record(iteration=i, phase=0, max_turns=3, grad_norm=norm)
        for i, norm in enumerate((math.nan, math.inf, 1.5))
    ]
    state = TrainingState(version=3, history=history)
    saved_state.save(store, tmp_path / "model", learner, state, tmp_path / "spool")

    stored = store.get(keys.checkpoint(3, checkpoint.PROGRESS))
    norms = [
        one["metrics"]["update/grad_norm"]
        for one in json.loads(stored, parse_constant=pytest.fail)["history"]
    ]
    assert norms == ["NaN", "Infinity", 1.5]
    resumed = saved_state.resume(store, learner, pytest.fail, tmp_path / "spool")
    assert repr(resumed) == repr(state)


def test_a_checkpoint_has_no_description_of_the_agent_that_the_run_began_from(tmp_path):
    """A model of MLflow's registry is described by MLmodel: how it is prompted, with which limits.
    That of its checkpoint is another agent."""
    store = MemoryStore()
    for name in ("model", "spool"):
        (tmp_path / name).mkdir()
    for name in ("config.json", "MLmodel"):
        (tmp_path / "model" / name).write_text("{}")
    state = TrainingState()
    saved_state.save(store, tmp_path / "model", OneWeight(), state, tmp_path / "spool")
    assert store.exists(keys.checkpoint(0, "config.json"))
    assert not store.exists(keys.checkpoint(0, "MLmodel"))


def test_a_checkpoint_keeps_the_tokens_of_the_generation_config_and_no_way_to_sample(tmp_path):
    """That of Qwen2.5-Instruct. Servers and transformers would apply its top_k and its penalty,
    with which the agent was not trained."""
    store = MemoryStore()
    for name in ("model", "spool", "fetched"):
        (tmp_path / name).mkdir()
    of_the_base = {
        "bos_token_id": 3,
        "do_sample": True,
        "eos_token_id": [5, 3],
        "max_new_tokens": 2048,
        "pad_token_id": 3,
        "repetition_penalty": 1.05,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "transformers_version": "4.37.0",
    }
    (tmp_path / "model/generation_config.json").write_text(json.dumps(of_the_base))
    saved_state.save(store, tmp_path / "model", OneWeight(), TrainingState(), tmp_path / "spool")
    checkpoint.fetch(store, 0, tmp_path / "fetched")
    assert json.loads((tmp_path / "fetched/generation_config.json").read_text()) == {
        "bos_token_id": 3,
        "eos_token_id": [5, 3],
        "pad_token_id": 3,
    }
    # A run that goes on from the checkpoint ends replies at the same tokens.
    assert generation_ends(tmp_path / "fetched") == generation_ends(tmp_path / "model") == (5, 3)


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_computes_with_a_checkpoint_what_the_trained_policy_does(tmp_path, tied):
    store, folder, spool = DirectoryStore(tmp_path / "store"), tmp_path / "base", tmp_path / "spool"
    spool.mkdir()
    save_model("llama", folder, tie_word_embeddings=tied)
    word_tokenizer.save(word_tokenizer.word_tokenizer(("go", "left")), folder)
    with Bench(folder, model={"dtype": "float32"}) as bench:
        before = bench.logprobs(GROUP[0])
        bench.update(as_sampled(bench, GROUP), rate=0.01)
        after = bench.logprobs(GROUP[0])
        saved_state.save(store, folder, bench.learner, TrainingState(version=1), spool)
    assert (after - before).abs().min() > 0.01
    checkpoint.fetch(store, 0, tmp_path / "fetched")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "fetched")
    assert model.config.tie_word_embeddings is tied
    ids = torch.from_numpy(GROUP[0].ids).long()  # the prompt 5 6 7, the reply 9 10, and 8
    with torch.no_grad():
        logprobs_TV = model(ids[None]).logits[0].log_softmax(-1)
    found = torch.stack([logprobs_TV[2, 9], logprobs_TV[3, 10]])
    torch.testing.assert_close(found, after, rtol=0, atol=1e-5)


def test_a_checkpoint_is_the_model_folder_and_five_files_more(tmp_path):
    """Every file costs a save one fsync."""
    store, folder, spool = DirectoryStore(tmp_path / "store"), tmp_path / "base", tmp_path / "spool"
    spool.mkdir()
    save_model("llama", folder)
    word_tokenizer.save(word_tokenizer.word_tokenizer(("go", "left")), folder)
    with Bench(folder) as bench:
        saved_state.save(store, folder, bench.learner, TrainingState(), spool)
    names = {key.removeprefix("checkpoints/000000/") for key in store.list("")}
    assert names - {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "trainer/optimizer-master.safetensors",
        "trainer/optimizer.json",
        "trainer/optimizer.safetensors",
        "trainer/progress.json",
    }
    assert names >= {path.name for path in folder.iterdir()} >= {"config.json", "model.safetensors"}
