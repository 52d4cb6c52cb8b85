"""Sizes of models, read from config.json."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from foreign_models import save_model
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.architecture import Rope
from agentrl_components.model.shape import read_native, read_shape

NEOX = """{"model_type": "gpt_neox", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3,
"num_attention_heads": 4, "intermediate_size": 64}"""
LLAMA = {
    "model_type": "llama",
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
QWEN = NEOX.replace("gpt_neox", "qwen2").replace("}", ', "num_key_value_heads": 2}')


def test_the_heads_of_a_model_that_only_transformers_has_are_those_of_its_config(tmp_path):
    (tmp_path / "config.json").write_text(NEOX)
    shape = read_shape(tmp_path, "auto")
    assert (shape.heads, shape.kv_heads, shape.layers, shape.head_width) == (4, 4, 3, 8)
    assert shape.counted is not None
    with pytest.raises(ArchitectureError, match="'gpt_neox' is not one of llama"):
        read_shape(tmp_path, "native")


LATENT = """{
"model_type": "deepseek_v2", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
"moe_intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": null, "qk_rope_head_dim": 8,
"qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2
}"""


def test_latent_attention_caches_one_vector_a_layer_on_every_device(tmp_path):
    """Regression: keys and values of all heads were counted, of the width of the rotated part."""
    (tmp_path / "config.json").write_text(LATENT)
    shape = read_shape(tmp_path, "auto")
    # The latent vector of 16 and the rotated key of 8, in three layers.
    assert shape.cached(1) == shape.cached(2) == 3 * (16 + 8)
    assert not shape.partly_cached


@pytest.mark.parametrize(
    ("stated", "partly"),
    [
        ({"model_type": "gemma2", "head_dim": 8, "sliding_window": 8}, True),
        ({"model_type": "gemma2", "head_dim": 8, "layer_types": ["full_attention"] * 2}, False),
        ({"model_type": "mistral", "sliding_window": 8}, True),
        ({"model_type": "mistral", "sliding_window": None}, False),
    ],
)
def test_layers_with_a_window_cache_less_than_the_context(tmp_path, stated, partly):
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(sizes | heads | stated))
    shape = read_shape(tmp_path, "transformers")
    assert shape.partly_cached == partly
    # Keys and values of two heads of 8 in two layers; a device has at least one head.
    assert (shape.cached(1), shape.cached(2), shape.cached(4)) == (64, 32, 32)


def test_both_implementations_read_the_same_sizes_of_a_known_model(tmp_path):
    (tmp_path / "config.json").write_text(QWEN)
    native, foreign = read_shape(tmp_path, "auto"), read_shape(tmp_path, "transformers")
    assert native.counted is None
    assert (native.heads, native.kv_heads) == (foreign.heads, foreign.kv_heads) == (4, 2)


def test_the_built_in_decoders_sizes_are_read_without_torch(tmp_path):
    (tmp_path / "config.json").write_text(QWEN)
    code = (
        "import sys; from pathlib import Path; from agentrl_components.model.shape import "
        "read_shape; assert read_shape(Path(sys.argv[1]), 'auto').heads == 4; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.mark.parametrize(("family", "bounded"), [("gpt2", True), ("gpt_neox", False)])
def test_a_model_with_a_weight_for_each_position_has_no_longer_context(family, bounded, tmp_path):
    save_model(family, tmp_path)  # 128 positions
    shape = read_shape(tmp_path, "auto")
    assert (shape.positions, shape.bounded) == (128, bounded)
    assert not shape.extrapolates(128)
    assert shape.extrapolates(129)
    shape.check_context(128)
    refused = pytest.raises(ModelError, match=r"is 129, .* 128 positions; set it to 128")
    with refused if bounded else nullcontext():
        shape.check_context(129)


LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}


@pytest.mark.parametrize(
    ("family", "changes", "rope", "longest"),
    [
        ("phi3", {"original_max_position_embeddings": 16}, LONG, 16),
        ("llama", {}, {"rope_type": "dynamic", "factor": 4.0}, 128),
    ],
)
def test_frequencies_that_depend_on_the_longest_episode_of_a_pack_are_not_used(
    family, changes, rope, longest, tmp_path
):
    save_model(family, tmp_path, rope_parameters={"rope_theta": 1e4} | rope, **changes)
    shape = read_shape(tmp_path, "auto")
    shape.check_context(longest)
    with pytest.raises(ModelError, match=rf"is {longest + 1}, .* set it to {longest} or less"):
        shape.check_context(longest + 1)


def test_positions_beyond_those_of_the_training_are_counted_where_scaling_makes_them(tmp_path):
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    yarn |= {"original_max_position_embeddings": 64}
    config = LLAMA | {"max_position_embeddings": 64, "rope_parameters": yarn}
    assert read_shape(written(tmp_path, config), "auto").positions == 256
    config = LLAMA | {"max_position_embeddings": 64}
    assert read_native(written(tmp_path, config)).positions == 64


def written(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_an_older_config_states_its_positions_at_the_top_level(tmp_path):
    older = {name: value for name, value in LLAMA.items() if name != "rope_parameters"}
    assert read_native(written(tmp_path, older | {"rope_theta": 7.0})).rope == Rope(theta=7.0)
    scaled = older | {"rope_theta": 500.0, "rope_scaling": LLAMA3}
    expected = Rope(theta=500.0, factor=8.0, original=64)
    assert read_native(written(tmp_path, scaled)).rope == expected
    oldest = {**LLAMA3, "type": LLAMA3["rope_type"]}
    del oldest["rope_type"]
    assert read_native(written(tmp_path, scaled | {"rope_scaling": oldest})).rope == expected


def test_rope_scaling_takes_precedence_over_rope_parameters(tmp_path):
    both = {"rope_scaling": LLAMA3, "rope_theta": 7.0}
    both["rope_parameters"] = {"rope_type": "default", "rope_theta": 500.0}
    expected = Rope(theta=7.0, factor=8.0, original=64)
    assert read_native(written(tmp_path, LLAMA | both)).rope == expected


@pytest.mark.parametrize(
    ("family", "attention", "output", "mlp"),
    [
        ("llama", True, True, True),
        ("qwen3", True, True, False),
        ("qwen2", True, False, False),  # queries, keys and values always have one
        ("mistral", False, False, False),
    ],
)
def test_fields_of_biases_are_read_for_the_families_that_have_them(
    family, attention, output, mlp, tmp_path
):
    stated = {"attention_bias": True, "mlp_bias": True, "sliding_window": None}
    shape = read_native(written(tmp_path, LLAMA | stated | {"model_type": family}))
    assert (shape.qkv_bias, shape.out_bias, shape.mlp_bias) == (attention, output, mlp)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": False},
        {"model_type": "llama", "sliding_window": 64, "use_sliding_window": True},
        {"model_type": "mistral", "sliding_window": None, "use_sliding_window": True},
    ],
)
def test_a_window_that_transformers_ignores_is_ignored(changes, tmp_path):
    assert read_native(written(tmp_path, LLAMA | changes)).family == changes["model_type"]


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": {k: v for k, v in LLAMA3.items() if not k.startswith("original")}},
        {"rope_scaling": LLAMA3, "original_max_position_embeddings": 128},
        {"model_type": "mistral", "sliding_window": 64, "use_sliding_window": False},
    ],
)
def test_what_only_transformers_computes_is_left_to_it(changes, tmp_path):
    folder = written(tmp_path, LLAMA | {"num_hidden_layers": 1, "vocab_size": 7} | changes)
    with pytest.raises(ArchitectureError):
        read_native(folder)
    assert read_shape(folder, "auto").counted is not None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "gpt2"}, "model type 'gpt2' is not one of llama, qwen2, qwen3, mistral"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"num_attention_heads": "four"}, "num_attention_heads: Input should be a valid integer"),
        ({"hidden_size": -64}, "hidden_size: Input should be greater than or equal to 1"),
        ({"head_dim": 15}, "heads of width 15 cannot be rotated; it must be even"),
        ({"num_key_value_heads": 3}, "4 heads is not a multiple of 3 key heads"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rotary scaling 'yarn' is not supported"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "factor: Field required"),
        (
            {"rope_parameters": LLAMA3 | {"high_freq_factor": 1.0}},
            "high_freq_factor must be above low_freq_factor",
        ),
        ({"model_type": "mistral", "sliding_window": 64}, "sliding-window attention"),
        ({"model_type": "mistral"}, "sliding-window attention"),  # its default is 4096
        ({"model_type": "qwen2", "use_sliding_window": True}, "sliding-window attention"),
        ({"is_causal": False}, "is_causal is False, so tokens attend to later ones"),
    ],
)
def test_an_unsupported_config_is_refused_with_its_reason(tmp_path, changes, told):
    with pytest.raises(ModelError) as error:
        read_native(written(tmp_path, LLAMA | changes))
    assert told in str(error.value)
    assert "config.json" in str(error.value)


@pytest.mark.parametrize("implementation", ["auto", "native", "transformers"])
def test_a_model_whose_tokens_attend_to_later_ones_is_refused_by_each_implementation(
    implementation, tmp_path
):
    folder = written(tmp_path, LLAMA | {"is_causal": False})
    with pytest.raises(ModelError, match="is_causal is False"):
        read_shape(folder, implementation)


def test_a_missing_key_of_the_config_is_named(tmp_path):
    stated = {name: value for name, value in LLAMA.items() if name != "intermediate_size"}
    with pytest.raises(ModelError, match="intermediate_size: Field required"):
        read_native(written(tmp_path, stated))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.just([]),
    st.dictionaries(st.sampled_from(["rope_theta", "type", "factor"]), st.integers() | st.text()),
)


@given(field=st.sampled_from(sorted(LLAMA)), value=VALUES)
def test_every_value_of_a_field_is_read_or_refused(field, value):
    with TemporaryDirectory() as folder, suppress(ModelError):
        shape = read_native(written(Path(folder), LLAMA | {field: value}))
        assert shape.layers >= 1
        assert shape.head_width % 2 == 0
        assert len(shape.rope.frequencies(shape.head_width)) == shape.head_width // 2


@pytest.mark.parametrize("text", [None, "{", "[]", ""])
def test_a_missing_or_malformed_config_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        read_native(tmp_path)
