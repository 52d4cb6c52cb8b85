from __future__ import annotations

import subprocess
import sys

import pytest

from agentrl_components.errors import ArchitectureError
from agentrl_components.model.shape import read_shape

NEOX = """{"model_type": "gpt_neox", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3,
"num_attention_heads": 4, "intermediate_size": 64}"""
QWEN = NEOX.replace("gpt_neox", "qwen2").replace("}", ', "num_key_value_heads": 2}')


def test_the_heads_of_a_model_that_only_transformers_has_are_those_of_its_config(tmp_path):
    (tmp_path / "config.json").write_text(NEOX)
    shape = read_shape(tmp_path, "auto")
    assert (shape.heads, shape.kv_heads, shape.layers, shape.head_width) == (4, 4, 3, 8)
    assert shape.counted is not None
    with pytest.raises(ArchitectureError, match="'gpt_neox' is not one of llama"):
        read_shape(tmp_path, "native")


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
