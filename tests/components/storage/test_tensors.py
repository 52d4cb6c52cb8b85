"""Tensors are restored bit-identically, and transformers opens weights of several files."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentrl_components.storage import tensors


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def optimizer_after_two_steps(model: torch.nn.Module) -> torch.optim.AdamW:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.arange(8)[None]).logits.square().mean().backward()
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("spooled", [True, False])
def test_a_restored_optimizer_makes_the_same_update(tmp_path: Path, spooled: bool) -> None:
    model = tiny_llama()
    optimizer = optimizer_after_two_steps(model)
    spool = tmp_path if spooled else None
    files = tensors.pack_optimizer(optimizer.state_dict(), spool=spool)
    state = tensors.unpack(tensors.pack(model.state_dict(), "model.safetensors", spool))
    assert sorted(files) == ["trainer/optimizer.json", "trainer/optimizer.safetensors"]

    restored = tiny_llama()
    restored.load_state_dict(state)
    resumed = torch.optim.AdamW(restored.parameters(), lr=1.0)
    resumed.load_state_dict(tensors.unpack_optimizer(files))
    for trained, stepper in ((model, optimizer), (restored, resumed)):
        stepper.zero_grad()
        trained(torch.arange(8, 16)[None]).logits.square().mean().backward()
        stepper.step()
    for name, value in model.state_dict().items():
        assert torch.equal(value, restored.state_dict()[name]), name


def test_python_numbers_in_an_optimizer_state_are_restored_as_numbers() -> None:
    state = {
        "state": {0: {"step": 3, "exp_avg": torch.ones(2)}, 12: {"step": torch.tensor(4.0)}},
        "param_groups": [{"lr": 0.1, "betas": [0.9, 0.99], "params": [0, 12]}],
    }
    restored = tensors.unpack_optimizer(
        tensors.pack_optimizer(state, "critic_optimizer"), "critic_optimizer"
    )
    assert restored["state"][0]["step"] == 3
    assert torch.equal(restored["state"][0]["exp_avg"], torch.ones(2))
    assert torch.equal(restored["state"][12]["step"], torch.tensor(4.0))
    assert restored["param_groups"] == state["param_groups"]


def test_equal_states_are_packed_to_equal_bytes() -> None:
    one, other = tiny_llama(), tiny_llama()
    assert tensors.pack(one.state_dict(), "a") == tensors.pack(other.state_dict(), "a")


def test_views_and_empty_tensors_are_restored() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    state = {"row": base[1], "turned": base.T, "none": torch.empty(0), "none2": torch.empty(0)}
    restored = tensors.unpack(tensors.pack(state, "a"))
    assert {name: value.tolist() for name, value in restored.items()} == {
        name: value.tolist() for name, value in state.items()
    }


def test_spooled_files_have_the_same_bytes_and_do_not_depend_on_the_folder(tmp_path: Path) -> None:
    state = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16)}
    state["tied"] = state["b"]
    in_memory = tensors.pack(state, "x.safetensors")
    spooled = tensors.pack(state, "x.safetensors", tmp_path)
    assert isinstance(spooled, Path)
    assert spooled.read_bytes() == in_memory
    back = tensors.unpack(spooled)
    spooled.write_bytes(b"")  # a mapped tensor would be lost
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_weights_of_one_file_are_one_file(tmp_path: Path) -> None:
    weights = {"a": torch.ones(4), "b": torch.zeros(2, 2)}
    files = tensors.pack_weights(weights.items(), tmp_path, limit=32)
    assert list(files) == ["model.safetensors"]


def test_larger_weights_are_files_of_at_most_the_limit_and_an_index(tmp_path: Path) -> None:
    """Of 16, 8, 40 and 8 bytes, with a limit of 24: the third has a file of its own."""
    weights = [("b", 4), ("a", 2), ("large", 10), ("c", 2)]
    stream = ((name, torch.full((size,), float(size))) for name, size in weights)
    files = tensors.pack_weights(stream, tmp_path, limit=24)
    index = json.loads(bytes(files.pop("model.safetensors.index.json")))
    assert index == {
        "metadata": {"total_size": 72},
        "weight_map": {
            "a": "model-00001-of-00003.safetensors",
            "b": "model-00001-of-00003.safetensors",
            "c": "model-00003-of-00003.safetensors",
            "large": "model-00002-of-00003.safetensors",
        },
    }
    assert {name: sorted(tensors.unpack(content)) for name, content in files.items()} == {
        "model-00001-of-00003.safetensors": ["a", "b"],
        "model-00002-of-00003.safetensors": ["large"],
        "model-00003-of-00003.safetensors": ["c"],
    }


def test_transformers_opens_weights_of_several_files(tmp_path: Path) -> None:
    model = tiny_llama()
    spool = tmp_path / "spool"
    spool.mkdir()
    state = {name: t for name, t in model.state_dict().items() if name != "lm_head.weight"}
    files = tensors.pack_weights(state.items(), spool, limit=4096)
    assert len(files) > 2
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    model.config.save_pretrained(tmp_path)
    again = LlamaForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(t, again.state_dict()[name]) for name, t in state.items())
