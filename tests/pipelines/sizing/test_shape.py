"""The sizes of models that the built-in decoder does not have."""

import pytest

from agentrl_components.errors import ArchitectureError
from agentrl_components.spec import Lora, Model
from agentrl_pipelines.sizing.model_size import model_size
from agentrl_pipelines.sizing.shape import shape_of

CONFIG = """{"model_type": "gpt_neox", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3,
"num_attention_heads": 4, "intermediate_size": 64, "tie_word_embeddings": false}"""
# A block: two norms 2 x 2 x 32, query_key_value 32 x 96 + 96, dense 32 x 32 + 32,
# feed-forward 32 x 64 + 64 and 64 x 32 + 32.
BLOCK = 128 + 3168 + 1056 + 2112 + 2080


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(CONFIG)
    return Model(source=f"file://{tmp_path}")


def test_parameters_of_a_foreign_model_are_counted_from_its_config(model):
    size = model_size(shape_of(model))
    assert size.block == BLOCK
    assert size.embedding == 3200
    assert size.total == size.trainable == 3 * BLOCK + 2 * 3200 + 64
    assert shape_of(model).layers == 3


def test_adapters_of_a_foreign_model_are_counted_by_the_names_of_its_layers(model):
    lora = Lora(rank=2, targets=("query_key_value", "dense_h_to_4h"))
    assert model_size(shape_of(model), lora).trainable == 3 * 2 * (32 + 96 + 32 + 64)


def test_native_refuses_a_foreign_model_and_both_agree_on_a_known_one(model, tmp_path):
    with pytest.raises(ArchitectureError, match="'gpt_neox' is not one of llama"):
        shape_of(model.model_copy(update={"implementation": "native"}))
    known = CONFIG.replace("gpt_neox", "qwen2").replace("}", ', "num_key_value_heads": 2}')
    (tmp_path / "config.json").write_text(known)
    by_transformers = model.model_copy(update={"implementation": "transformers"})
    assert model_size(shape_of(by_transformers)) == model_size(shape_of(model))
