"""Which weights an update of a running vLLM has to bring."""

import json

import pytest
import torch
from safetensors.torch import save_file

from agentrl_components.engines.vllm_engine import weights
from agentrl_components.errors import EngineError

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@pytest.fixture
def shapes_of(tmp_path):
    def shapes_of(tied):
        both = {EMBEDDING: torch.ones(4, 2), HEAD: torch.ones(4, 2)}
        save_file(both, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
        return weights.shapes_in(tmp_path)

    return shapes_of


@pytest.mark.parametrize("names", [(EMBEDDING,), (EMBEDDING, HEAD)])
def test_an_update_may_leave_out_the_tied_head_that_the_models_files_hold(shapes_of, names):
    weights.check(shapes_of(tied=True), {name: torch.zeros(4, 2) for name in names})


def test_an_update_has_to_bring_a_head_of_its_own(shapes_of):
    with pytest.raises(EngineError, match=r"lm_head\.weight is missing"):
        weights.check(shapes_of(tied=False), {EMBEDDING: torch.zeros(4, 2)})
