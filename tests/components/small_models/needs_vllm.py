"""Marks of tests that import vLLM."""

import importlib.util

import pytest

NEEDS_VLLM = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed"),
    # raised by vLLM, and by torch about vLLM, at import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
