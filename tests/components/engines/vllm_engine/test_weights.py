"""Which weights an update of a running vLLM has to bring."""

import json

import pytest
import torch
from safetensors.torch import save_file

from agentrl_components.engines.vllm_engine import weights
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
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
    with pytest.raises(EngineError, match="update_weights timed out"):
        await engine.receive_update({"names": [EMBEDDING]})
