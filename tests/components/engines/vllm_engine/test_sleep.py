"""When vLLM frees its memory and takes it again, with an engine that keeps the calls."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_engine import request

from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.errors import EngineError

NORM = {"model.norm.weight": torch.ones(3)}


class RecordingVllm:
    """Takes the calls of vLLM's `LLMEngine` that weights, adapters and memory need."""

    def __init__(self):
        self.calls = []
        self.engine_core = self

    def sleep(self, level):
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags):
        self.calls.append(f"wake {tags[0]}")

    def collective_rpc(self, method, timeout=None, kwargs=None):
        del timeout, kwargs
        self.calls.append(method)

    def set_weight_version(self, name):
        self.calls.append(f"version {name}")

    def reset_prefix_cache(self, reset_running_requests):
        assert reset_running_requests
        self.calls.append("reset_prefix_cache")
        return True

    def add_lora(self, adapters):
        self.calls.append(f"add {adapters.lora_path}")
        return True

    def abort_request(self, keys):
        del keys


@pytest.fixture
def vllm():
    return RecordingVllm()


@pytest.fixture
def engine(vllm, tmp_path):
    save_file(NORM, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox"}')
    return VllmEngine(tmp_path, VllmOptions(sleeps=True), start=lambda folder, options: vllm)


async def test_memory_for_weights_comes_back_before_they_are_loaded_and_for_the_cache_after(
    engine, vllm
):
    await engine.sleep()
    await engine.sleep()  # it sleeps already
    await engine.load(NORM, 3)
    assert vllm.calls == [
        "sleep 2",
        "wake weights",
        "synchronize_device",
        "start_weight_update",
        "update_weights",
        "finish_weight_update",
        "synchronize_device",
        "version 1",
        "reset_prefix_cache",
        "wake kv_cache",
    ]
    vllm.calls.clear()
    await engine.load(NORM, 4)
    assert vllm.calls[:2] == ["synchronize_device", "start_weight_update"]
    assert "wake kv_cache" not in vllm.calls


async def test_weights_come_back_before_adapters_that_are_added_to_them(engine, vllm):
    pytest.importorskip("vllm")
    await engine.sleep(keeps_weights=True)
    await engine.use_adapters(Path("new"), 3)
    assert vllm.calls == [
        "sleep 1",
        "wake weights",
        "wake kv_cache",
        "add new",
        "version 1",
        "reset_prefix_cache",
    ]
    vllm.calls.clear()
    await engine.use_adapters(Path("newer"), 4)
    assert vllm.calls[0] == "add newer"


async def test_an_engine_that_sleeps_samples_nothing(engine):
    await engine.sleep()
    with pytest.raises(EngineError, match="sleeps until weights are loaded"):
        await engine.generate(request(1, (3, 4)))
