"""Models that transformers computes: same logits, gradients and names as transformers itself."""

import json

import numpy as np
import pytest
import torch
from foreign_models import ARCHITECTURES, save_model
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model import lora
from agentrl_components.model.foreign.model import ForeignModel
from agentrl_components.model.load import WEIGHTS, export_weights, open_decoder
from agentrl_components.model.shape import read_shape
from agentrl_components.spec import Lora
from agentrl_components.update.logprobs import score
from agentrl_components.update.packing import Example, pack

LENGTHS = (17, 5, 11)
NATIVE = ("llama", "mistral", "qwen2", "qwen3")


def opened(folder, implementation="auto"):
    return open_decoder(folder, torch.float32, torch.device("cpu"), implementation)


def examples():
    draw = np.random.default_rng(0)
    return [
        Example(
            ids=draw.integers(0, 64, length).astype(np.int32),
            sampled=np.flatnonzero(np.arange(length) % 3),
            allowed=None,
            temperature=1.0,
            columns={},
        )
        for length in LENGTHS
    ]


def logprobs(model):
    """Of the sampled tokens of each example, and the gradients of their sum by name."""
    model.zero_grad()
    found, _ = score(model, pack(examples(), range(len(LENGTHS))), chunk=7)
    found.sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return found.detach(), gradients


def logprobs_of_transformers(model):
    """The same, computed one example at a time by transformers."""
    model.zero_grad()
    parts = []
    for one in examples():
        ids = torch.from_numpy(one.ids.astype(np.int64))
        logits = model(ids[None]).logits[0, :-1].log_softmax(-1)
        parts.append(logits.gather(1, ids[1:, None])[one.sampled - 1, 0])
    found = torch.cat(parts)
    found.sum().backward()
    return found.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def assert_close(found, expected):
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    assert found[1].keys() == expected[1].keys()
    assert any(bool(gradient.any()) for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        largest = float(gradient.abs().max())
        # A gradient that is 0 but for rounding, such as that of a key's bias, says nothing.
        assert float((found[1][name] - gradient).abs().max()) <= 1e-4 * max(largest, 0.1), name


def test_capped_scores_of_attention_are_capped(tmp_path):
    theirs = save_model("gemma2", tmp_path, attn_logit_softcapping=1.0, initializer_range=0.5)
    without_cap = logprobs_of_transformers(theirs)[0]
    theirs.set_attn_implementation("eager")
    expected = logprobs_of_transformers(theirs)
    assert float((without_cap - expected[0]).abs().max()) > 0.1
    assert_close(logprobs(opened(tmp_path)), expected)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_packed_episodes_have_the_logits_and_gradients_of_transformers(family, tmp_path):
    theirs = save_model(family, tmp_path)
    ours = opened(tmp_path)
    expected = logprobs_of_transformers(theirs)
    assert_close(logprobs(ours), expected)
    ours.recomputed = ours.shape.layers
    assert_close(logprobs(ours), expected)


@pytest.mark.parametrize("family", NATIVE)
def test_both_implementations_agree_on_the_families_of_the_decoder(family, tmp_path):
    save_model(family, tmp_path, **({"sliding_window": None} if family == "mistral" else {}))
    native, foreign = opened(tmp_path, "native"), opened(tmp_path, "transformers")
    assert type(native) is not type(foreign)
    assert type(opened(tmp_path)) is type(native)
    assert_close(logprobs(foreign), logprobs(native))


@pytest.mark.parametrize("family", [*ARCHITECTURES, *NATIVE])
def test_weights_are_exported_as_transformers_saves_them(family, tmp_path):
    save_model(family, tmp_path)
    saved = load_file(tmp_path / WEIGHTS)
    exported = export_weights(opened(tmp_path, "transformers"))
    assert exported.keys() == saved.keys()
    assert all(torch.equal(exported[name], saved[name]) for name in saved)
    save_file(exported, tmp_path / WEIGHTS, metadata={"format": "pt"})
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert_close(logprobs(opened(tmp_path, "transformers")), logprobs_of_transformers(again))


def test_a_window_that_the_decoder_does_not_have_goes_to_transformers(tmp_path):
    theirs = save_model("mistral", tmp_path, sliding_window=4)
    with pytest.raises(ArchitectureError, match="sliding-window attention is not supported"):
        opened(tmp_path, "native")
    assert_close(logprobs(opened(tmp_path)), logprobs_of_transformers(theirs))


@pytest.mark.parametrize(
    ("family", "targets"),
    [("gpt_neox", ("query_key_value", "dense_4h_to_h")), ("gpt2", ("c_attn", "attn.c_proj"))],
)
def test_adapters_are_merged_under_the_names_of_transformers(family, targets, tmp_path):
    save_model(family, tmp_path)
    model = opened(tmp_path)
    lora.add(model, Lora(rank=2, targets=targets), seed=0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(0.1)
    expected = logprobs(model)[0]
    merged = export_weights(model)
    assert merged.keys() == load_file(tmp_path / WEIGHTS).keys()
    save_file(merged, tmp_path / WEIGHTS, metadata={"format": "pt"})
    torch.testing.assert_close(logprobs(opened(tmp_path))[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "target"),
    [("gpt2", "wte"), ("gpt2", "wpe"), ("falcon", "word_embeddings"), ("gpt_neox", "embed_in")],
)
def test_embeddings_are_refused_as_targets_of_adapters(family, target, tmp_path):
    save_model(family, tmp_path)
    with pytest.raises(ModelError, match=rf"targets: {target} cannot .* not a linear layer"):
        lora.add(opened(tmp_path), Lora(targets=(target,)), seed=0)


@pytest.mark.parametrize(
    "config", [{"model_type": kind} for kind in ("bert", "t5", "bart", "vit", "nothing")]
)
def test_a_model_that_is_no_causal_language_model_is_refused(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArchitectureError, match=r"config\.json"):
        opened(tmp_path)


def test_a_missing_weight_is_named(tmp_path):
    save_model("olmo2", tmp_path)
    weights = load_file(tmp_path / WEIGHTS)
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"missing \['model\.norm\.weight'\]"):
        opened(tmp_path)


def test_a_head_that_cannot_be_computed_is_refused_when_the_model_is_opened(tmp_path):
    class Broken(nn.Linear):
        def forward(self, x):
            raise AttributeError("no such part")

    model = save_model("olmo2", tmp_path)
    model.lm_head = Broken(32, 64)
    with pytest.raises(ArchitectureError, match=r"'olmo2': its .* head .* no such part"):
        ForeignModel(model)


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_act", "other"), ("hidden_size", -1), ("num_hidden_layers", 0), ("vocab_size", [])],
)
def test_a_value_that_transformers_cannot_use_is_an_error_of_the_folder(field, value, tmp_path):
    save_model("gpt_neox", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {field: value}))
    for read in (opened, lambda folder: read_shape(folder, "transformers")):
        with pytest.raises(ModelError, match=f"{tmp_path}|it has no layers"):
            read(tmp_path)
