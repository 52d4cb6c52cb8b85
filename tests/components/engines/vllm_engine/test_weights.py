"""Which weights an update of a running vLLM has to bring."""

import json

import pytest
import torch
from safetensors.torch import save_file

from agentrl_components.engines.vllm_engine import weights
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.errors import EngineError, ModelError, WorkersLostError
from agentrl_components.model.load import INDEX

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 2,
    "intermediate_size": 2,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "vocab_size": 4,
}


@pytest.fixture
def shapes_of(tmp_path):
    def shapes_of(tied):
        both = {EMBEDDING: torch.ones(4, 2), HEAD: torch.ones(4, 2)}
        save_file(both, tmp_path / "model.safetensors")
        config = {"model_type": "gpt_neox", "tie_word_embeddings": tied}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return weights.stored_shapes(tmp_path)

    return shapes_of


@pytest.mark.parametrize("names", [(EMBEDDING,), (EMBEDDING, HEAD)])
def test_an_update_may_leave_out_the_tied_head_that_the_models_files_hold(shapes_of, names):
    shapes = shapes_of(tied=True)
    weights.check(shapes, shapes.keys(), {name: torch.zeros(4, 2) for name in names})


def test_an_update_has_to_bring_a_head_of_its_own(shapes_of):
    shapes = shapes_of(tied=False)
    with pytest.raises(EngineError, match=r"lm_head\.weight is missing"):
        weights.check(shapes, shapes.keys(), {EMBEDDING: torch.zeros(4, 2)})


FREQUENCIES, MASK = "layers.0.self_attn.rotary_emb.inv_freq", "layers.0.attention.masked_bias"


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        (LLAMA, FREQUENCIES),  # a family of the built-in decoder
        ({"model_type": "gpt_neox"}, FREQUENCIES),
        ({"model_type": "gpt_neox"}, MASK),
        ({"model_type": "qwen3_next"}, "mtp.layers.0.mlp.gate.weight"),
    ],
    ids=["llama", "gpt_neox frequencies", "gpt_neox mask", "qwen3_next"],
)
def test_an_update_need_not_bring_what_no_model_reads(config, unread, tmp_path):
    save_file({EMBEDDING: torch.ones(4, 2), unread: torch.ones(3)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    shapes = weights.stored_shapes(tmp_path)
    required = weights.required_names(tmp_path, shapes)
    assert (shapes.keys(), required) == ({EMBEDDING, unread}, {EMBEDDING})
    weights.check(shapes, required, {EMBEDDING: torch.zeros(4, 2)})
    weights.check(shapes, required, {EMBEDDING: torch.zeros(4, 2), unread: torch.zeros(3)})


def test_a_head_is_tied_if_it_is_by_default_in_transformers(tmp_path):
    both = {EMBEDDING: torch.ones(4, 2), HEAD: torch.ones(4, 2)}
    save_file(both, tmp_path / "model.safetensors")
    for family, required in (("gemma2", {EMBEDDING}), ("qwen3", {EMBEDDING, HEAD})):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
        assert weights.stored_shapes(tmp_path).keys() == required


def test_files_that_the_index_does_not_name_are_not_read(tmp_path):
    save_file({EMBEDDING: torch.ones(4, 2)}, tmp_path / "model.safetensors")
    save_file({"norm.weight": torch.ones(3)}, tmp_path / "consolidated.safetensors")
    assert weights.stored_shapes(tmp_path) == {EMBEDDING: (4, 2)}
    save_file({"model.norm.weight": torch.ones(3)}, tmp_path / "part.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"any": "part.safetensors"}}))
    assert weights.stored_shapes(tmp_path) == {"model.norm.weight": (3,)}


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ModelError, match=r"model\.safetensors: cannot be read"):
        weights.stored_shapes(tmp_path)
    save_file({HEAD: torch.ones(4, 2)}, tmp_path / "model.safetensors")
    for content in ("{", "[]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ModelError, match=r"config\.json: cannot be read"):
            weights.stored_shapes(tmp_path)


class StuckWorkers:
    """vLLM's `LLMEngine` over two processes, of which one waits in NCCL for the other, which has
    failed. Its calls end when their time is over."""

    def abort_request(self, keys):
        del keys

    def collective_rpc(self, method, timeout=None, kwargs=None):
        del kwargs
        if method == "update_weights":
            assert timeout is not None, "waits for ever"
            raise TimeoutError(f"RPC call to {method} timed out.")


async def test_an_engine_fails_if_its_workers_do_not_load_the_weights_in_time(shapes_of, tmp_path):
    shapes_of(tied=True)
    engine = VllmEngine(tmp_path, VllmOptions(), start=lambda folder, options: StuckWorkers())
    await engine.start_update()
    with pytest.raises(WorkersLostError, match="update_weights timed out"):
        await engine.receive_update({"names": [EMBEDDING]})
    with pytest.raises(WorkersLostError, match="update_weights timed out"):
        await engine.drop_update()


class FullDevice(StuckWorkers):
    """vLLM on a device without memory for the new weights."""

    def collective_rpc(self, method, timeout=None, kwargs=None):
        if method == "update_weights":
            raise RuntimeError("CUDA error: out of memory")


async def test_an_engine_whose_device_fails_is_lost_and_weights_that_do_not_fit_are_an_error(
    shapes_of, tmp_path
):
    """Another sampler can take the place of the one. The others are wrong in every sampler."""
    shapes_of(tied=True)
    for weight, error in ((torch.ones(4, 2), WorkersLostError), (torch.ones(9), EngineError)):
        engine = VllmEngine(tmp_path, VllmOptions(), start=lambda folder, options: FullDevice())
        await engine.start_update()
        with pytest.raises(error, match="vLLM cannot load new weights"):
            await engine.update({EMBEDDING: weight})
