"""Start vLLM's `LLMEngine` in this process, with settings that vLLM 0.32 needs for exact results.

On CPU vLLM advances torch's global generator at every step, although no reply depends on it. Other
code of the process that needs repeatable random numbers must use a generator of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from agentrl_components.compilers import compiler
from agentrl_components.engines.vllm_engine.adapters import room_for
from agentrl_components.errors import EngineError, ModelError

CPU_BLOCK = 32
"""Tokens of a cache block on CPU. Only whole blocks are cached, and an episode's turns are shorter
than vLLM's default of 128. Its vectorised attention needs a multiple of 32."""
CPU_CACHE_BYTES = 256 << 20

DEFAULTS = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # "auto" pins the whole process to some cores
}
"""Defaults of environment variables. Values that are already set are kept."""
RUNNER_V2 = "VLLM_USE_V2_MODEL_RUNNER"
"""Variable that selects vLLM's model runner. The default is V2 on GPUs, and V1 on CPUs, because V2
needs Triton. A value that is already set is kept."""
START_ERRORS = (ValueError, OSError, RuntimeError, NotImplementedError, AssertionError)
"""What vLLM raises if it cannot run a model with some settings."""
BATCHED_TOKENS = 8192
"""Tokens of a step on GPUs, or one for each reply. vLLM's default for engines that others step is
2,048, with which prompts take several times as many steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Settings of a vLLM engine."""

    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of weights, activations and cache."""
    context: int = 1024
    """Maximum number of tokens of prompt and reply together."""
    replies: int = 256
    """Maximum number of replies computed concurrently; more wait."""
    cache_bytes: int | None = None
    """Memory for keys and values. None: 256 MiB on CPU; on CUDA the rest of `memory_share`."""
    memory_share: float = 0.5
    """Share of the device's memory that vLLM may use. The trainer on the device needs the rest."""
    tensor_parallel: int = 1
    """Devices over which each layer is split."""
    adapter_rank: int | None = None
    """Rank of adapters that are added to the weights at run time. None: there are none."""
    sleeps: bool = False
    """The engine can give its memory back while a trainer works on the same GPU. CUDA only."""
    eager: bool | None = None
    """Disable CUDA graphs and compilation. None: disabled on CPU, enabled on CUDA."""


def start_vllm(folder: Path, options: VllmOptions) -> Any:
    """An `LLMEngine` for the model in `folder`, in transformers' layout.

    Call it in the thread that will step the engine. A process can have one engine at a time.

    Raises:
        ModelError: vLLM cannot run the model in `folder`.
        EngineError: vLLM is not installed or fails to start.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json; use a folder saved by transformers")
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault(RUNNER_V2, "0" if options.device == "cpu" else "1")
    # Otherwise the model runs in a child process on CPU, to which weights would be copied.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    try:
        with _torch_restored(), _modules_that_vllm_can_scan():
            return _start(folder, options)
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported ({error}); install the packages in requirements/, or set "
            "rollout.engine: torch"
        ) from error
    except Exception as error:
        # vLLM raises `Exception` itself if one of its processes fails.
        if isinstance(error, START_ERRORS) or type(error) is Exception:
            raise EngineError(f"vLLM cannot start on {folder}: {error}") from error
        raise


def _start(folder: Path, options: VllmOptions) -> Any:
    from vllm.platforms import current_platform

    on_cpu = options.device == "cpu"
    if current_platform.is_cpu() != on_cpu:
        raise ValueError(
            f"the device is {options.device}, but the installed vLLM is built for "
            f"{current_platform.device_type}"
        )
    if on_cpu:
        # Set before vLLM's sampler is imported, which otherwise compiles a function with g++ at the
        # first token: that takes 20 s, or fails without a compiler.
        current_platform.simple_compile_backend = "eager"
        if options.tensor_parallel > 1:
            os.environ["TORCH_COMPILE_DISABLE"] = "1"  # the same in the worker processes
    elif compiler(options.device) is None:
        raise ValueError(
            "it compiles kernels for GPUs, and no C compiler is installed; install gcc, or set CC "
            "(the image `trainer` has one)"
        )

    from vllm.config import WeightTransferConfig
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    transfer = WeightTransferConfig(backend="agentrl")
    arguments = EngineArgs(
        **_arguments(folder, options), trust_remote_code=False, weight_transfer_config=transfer
    )
    if on_cpu:
        _prepare_model(folder)
    engine = LLMEngine.from_engine_args(arguments, usage_context=UsageContext.ENGINE_CONTEXT)
    engine.set_weight_version("0")  # place in `VllmEngine`'s versions
    return engine


def _arguments(folder: Path, options: VllmOptions) -> dict[str, Any]:
    from vllm import envs

    on_cpu = options.device == "cpu"
    v2 = envs.VLLM_USE_V2_MODEL_RUNNER
    processor = "admissible_v2:AdmissibleSlots" if v2 else "admissible_v1:AdmissibleReplies"
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,  # requests and replies are token ids
        "dtype": options.dtype,
        "max_model_len": options.context,
        "max_num_seqs": options.replies,
        "tensor_parallel_size": options.tensor_parallel,
        "enforce_eager": on_cpu if options.eager is None else options.eager,
        "max_num_batched_tokens": max(options.replies, BATCHED_TOKENS),
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled
        "generation_config": "vllm",  # otherwise the model's own top_k and temperature apply
        "gpu_memory_utilization": options.memory_share,
        "kv_cache_memory_bytes": options.cache_bytes,
        "enable_sleep_mode": options.sleeps,
        "disable_log_stats": True,
        "logits_processors": [f"{__package__}.{processor}"],
        "worker_extension_cls": f"{__package__}.weight_backend.Registration",
    }
    if options.tensor_parallel > 1:
        # In an actor with a place in a placement group vLLM would start actors of its own.
        arguments["distributed_executor_backend"] = "mp"
    if options.adapter_rank is not None:
        arguments |= room_for(options.adapter_rank)
    if on_cpu:
        arguments |= {
            "block_size": CPU_BLOCK,
            "kv_cache_memory_bytes": options.cache_bytes or CPU_CACHE_BYTES,
            # On CPU a seeded request with a chunked prompt crashes the engine ("CPU Generator does
            # not use offset").
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(options.context, options.replies, 4096),
        }
    return arguments


def _prepare_model(folder: Path) -> None:
    """On CPU: refuse models that vLLM's attention does not support, and register the model's class
    here, because vLLM would otherwise inspect it in a new interpreter, which takes 10 s."""
    from transformers import AutoConfig
    from vllm import ModelRegistry
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    widths = CPUAttentionBackend.get_supported_head_sizes()
    if width not in widths:
        raise ModelError(
            f"{folder} has attention heads of width {width}; vLLM on CPU supports {widths}. Use "
            "another model shape, or set rollout.engine: torch"
        )
    for name in config.architectures or ():
        known = ModelRegistry.models.get(name)
        if known is not None:
            ModelRegistry.register_model(name, known.load_model_cls())


@contextmanager
def _torch_restored() -> Iterator[None]:
    """Undo two global changes of vLLM's CPU worker, which would affect the trainer in this process:
    it seeds torch's global generator and replaces `torch.set_num_threads` by a no-op."""
    set_num_threads = torch.set_num_threads
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_num_threads = set_num_threads


@contextmanager
def _modules_that_vllm_can_scan() -> Iterator[None]:
    """Hide modules at whose attributes vLLM's CPU worker fails.

    It calls `vars(value).get` for the attributes of every loaded module. Objects that answer every
    name, such as llvmlite's library, which the BM25 index of deep search loads, have no such
    `vars`."""
    hidden = {}
    for name, module in list(sys.modules.items()):
        values = list((getattr(module, "__dict__", None) or {}).values())
        if any(hasattr(value, "__dict__") and not hasattr(vars(value), "get") for value in values):
            hidden[name] = sys.modules.pop(name)
    try:
        yield
    finally:
        sys.modules.update(hidden)


def stop_vllm(engine: Any) -> None:
    """Release the engine's memory and process groups, so that another engine can start."""
    from vllm.distributed.parallel_state import (
        destroy_distributed_environment,
        destroy_model_parallel,
    )

    engine.engine_core.shutdown()
    destroy_model_parallel()
    destroy_distributed_environment()
