"""The kernels for GPUs, without one: Triton compiles them, and its interpreter computes them.
`benchmarks/gpu.py` runs them on a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
HERE = Path(__file__).parent
ARRAYS = {"targets_C": "*i64", "dweight_GD": "*fp32"}
NUMBERS = {"eps": "fp32", "rows": "i32", "stride": "i32", "token_stride": "i32"}
NUMBERS |= {"vocabulary": "i32"}
HEADS = {"HEADS": 16, "PAIRS": 64, "WIDTH": 128, "ROWS": 32}


def kind(name: str) -> str:
    """The type of an argument: scores of a token are float32, and all else is bfloat16."""
    return (ARRAYS | NUMBERS).get(name, "*fp32" if name.endswith("_C") else "*bf16")


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(
    ("module", "name", "constants"),
    [
        ("heads", "_rotate_heads", HEADS | {"NORMED": True}),
        ("heads", "_rotate_heads_backward", HEADS | {"NORMED": True}),
        ("heads", "_rotate_heads_backward", HEADS | {"NORMED": False}),
        ("scores", "_score", {"COLUMNS": 4096}),
        ("scores", "_score_backward", {"COLUMNS": 4096, "HAS_ENTROPY": True}),
    ],
)
def test_kernels_compile_for_gpus(module, name, constants, capability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from agentrl_components.model.triton_kernels import heads, scores

    kernel = getattr({"heads": heads, "scores": scores}[module], name)
    names = kernel.arg_names
    assert constants.keys() <= set(names)
    source = ASTSource(
        kernel,
        {one: "constexpr" if one in constants else kind(one) for one in names},
        {(names.index(one),): value for one, value in constants.items()},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert compiled.asm["cubin"]


def test_kernels_compute_what_torch_does():
    """In a process of its own: Triton reads that it has to interpret when it is imported."""
    files = sorted(HERE.glob("interpreted/*_cases.py"))
    folders = [str(HERE.parent / "small_models"), *sys.path]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "triton_on_cpu", "-n", "0"]
    ended = subprocess.run(
        [*command, *map(str, files)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "16 passed" in ended.stdout
