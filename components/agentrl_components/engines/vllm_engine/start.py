"""vLLM's `LLMEngine` set up for this process, with what vLLM 0.32 needs to be exact and to stay up.

Where a setting looks odd, the comment beside it says what happens without it.

On CPU vLLM draws from torch's global generator at every step, though no reply depends on it.
Whoever shares the process and wants its own numbers to repeat draws from a generator of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from agentrl_components.errors import EngineError, ModelError

CPU_BLOCK = 32
"""Tokens of a cache block on CPU. vLLM's own 128 would seldom share an episode's short turns, and
its vectorised attention wants a multiple of 32."""
CPU_CACHE_BYTES = 256 << 20

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # "auto" pins this whole process to some of its cores
}
"""Environment variables that a person may set otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """How to run vLLM."""

    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights, activations and cache."""
    context: int = 1024
    """Longest prompt and reply together, in tokens."""
    replies: int = 256
    """Most replies computed at once; more wait."""
    cache_bytes: int | None = None
    """Memory for keys and values. None: 256 MiB on CPU; on CUDA what `memory_share` leaves."""
    memory_share: float = 0.5
    """Share of the device's memory that vLLM may use. A trainer on the device needs the rest."""
    eager: bool | None = None
    """No CUDA graphs and no compilation. None: on CPU yes (nothing is gained there), on CUDA no."""


def start_vllm(folder: Path, options: VllmOptions) -> Any:
    """An `LLMEngine` over the weights in `folder`, a folder that transformers saved.

    Call it in the thread that will step it, once at a time in a process. Raises `ModelError` when
    the folder holds no model that vLLM can run, `EngineError` when vLLM is missing or refuses.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no config.json; it should be saved by transformers")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    # Else the CPU platform moves the model to a child process, out of reach of `reload_weights`.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        with _torch_kept():
            return _start(folder, options)
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported ({error}); install the packages in requirements/, or set "
            "rollout.engine: torch"
        ) from error
    except (ValueError, OSError, RuntimeError, NotImplementedError) as error:
        raise EngineError(f"vLLM cannot start on {folder}: {error}") from error


def _start(folder: Path, options: VllmOptions) -> Any:
    from vllm.platforms import current_platform

    on_cpu = options.device == "cpu"
    if current_platform.is_cpu() != on_cpu:
        raise ValueError(
            f"device {options.device} was asked for, and this vLLM is built for "
            f"{current_platform.device_type}"
        )
    if on_cpu:
        # Before vLLM's sampler is imported: one helper there is compiled with g++ at the first
        # token, which takes 20 s, or fails where there is no compiler.
        current_platform.simple_compile_backend = "eager"

    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    arguments = EngineArgs(**_arguments(folder, options))
    if on_cpu:
        _prepare_model(folder)
    return LLMEngine.from_engine_args(arguments, usage_context=UsageContext.ENGINE_CONTEXT)


def _arguments(folder: Path, options: VllmOptions) -> dict[str, Any]:
    on_cpu = options.device == "cpu"
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,  # ids in, ids out
        "dtype": options.dtype,
        "max_model_len": options.context,
        "max_num_seqs": options.replies,
        "enforce_eager": on_cpu if options.eager is None else options.eager,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled
        "generation_config": "vllm",  # else the model's own top_k and temperature creep in
        "gpu_memory_utilization": options.memory_share,
        "kv_cache_memory_bytes": options.cache_bytes,
        "disable_log_stats": True,
    }
    if on_cpu:
        arguments |= {
            "block_size": CPU_BLOCK,
            "kv_cache_memory_bytes": options.cache_bytes or CPU_CACHE_BYTES,
            # A seeded request whose prompt is computed in pieces kills the engine on CPU
            # ("CPU Generator does not use offset"): prompts are computed whole.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(options.context, 4096),
        }
    return arguments


def _prepare_model(folder: Path) -> None:
    """On CPU: refuse what its attention cannot compute, and import the model's class here; vLLM
    would start another interpreter to look at it, for 10 s."""
    from transformers import AutoConfig
    from vllm import ModelRegistry
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    config = AutoConfig.from_pretrained(folder)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    widths = CPUAttentionBackend.get_supported_head_sizes()
    if width not in widths:
        raise ModelError(
            f"{folder} has attention heads of width {width}; vLLM on CPU takes {widths}. Change "
            "the model's shape, or set rollout.engine: torch"
        )
    for name in config.architectures or ():
        known = ModelRegistry.models.get(name)
        if known is not None:
            ModelRegistry.register_model(name, known.load_model_cls())


@contextmanager
def _torch_kept() -> Iterator[None]:
    """Undo what vLLM's CPU worker does to torch for good: it seeds the global generator and makes
    `torch.set_num_threads` do nothing, to the trainer in this process too."""
    set_num_threads = torch.set_num_threads
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_num_threads = set_num_threads


def stop_vllm(engine: Any) -> None:
    """Give back the engine's memory and process groups, so that another can start."""
    from vllm.distributed.parallel_state import (
        destroy_distributed_environment,
        destroy_model_parallel,
    )

    engine.engine_core.shutdown()
    destroy_model_parallel()
    destroy_distributed_environment()
