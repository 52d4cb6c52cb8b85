"""Install the CUDA build of torch without CUDA's libraries, for tests on machines without a GPU.

    python without_cuda.py stage.txt > stage-cpu.txt    the requirements without them
    python without_cuda.py --finish                     afterwards: lets torch load without them

PyPI's torch for Linux is the CUDA build and requires 3.4 GB of libraries. The dynamic loader must
find a file for each of them, so each is replaced by a link to a nearly empty library of torch. With
lazy `dlopen`, their missing functions are only looked up when they are called, which never happens
on a CPU. The libraries that torch uses during its import are kept: CUDA runtime, profiler, NVSHMEM.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

KEPT = ("nvidia-cuda-runtime", "nvidia-cuda-cupti", "nvidia-nvshmem")
CUDA = re.compile(r"(nvidia|triton|cuda)[-\w]*")
EMPTY = "libtorch_global_deps.so"
LIBRARIES = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcurand.so.10",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvrtc.so.13",
)
IMPORTED = """
torch transformers peft safetensors.torch safetensors.numpy tokenizers jinja2 mlflow sqlalchemy
minio openai minigrid httpx tenacity click yaml rich.progress pydantic.alias_generators
pydantic.root_model PIL.BmpImagePlugin PIL.GifImagePlugin PIL.JpegImagePlugin PIL.PpmImagePlugin
matplotlib.pyplot matplotlib.backends.backend_agg matplotlib.backends.backend_svg
"""
UNUSED = (
    "nvidia/*/include",
    "nvidia/*/lib/*.a",
    "nvidia/*/lib/*.bc",
    "nvidia/*/lib/libnvperf*",
    "torch/include",
    "torch/lib/libtorch_cuda_linalg.so",
)


def without_cuda(requirements: str) -> str:
    """The requirements without CUDA's packages; indented lines belong to the package above."""
    packages = re.split(r"\n(?=\S)", requirements)
    return "\n".join(package for package in packages if not left_out(package)) + "\n"


def left_out(package: str) -> bool:
    """Whether a requirement is a package of CUDA that torch can be imported without."""
    return bool(CUDA.match(package)) and not package.startswith(KEPT)


def link_libraries() -> None:
    """Create the links in torch's folder of libraries, and make `dlopen` lazy."""
    packages = Path(sysconfig.get_path("purelib"))
    folder = packages / "torch" / "lib"
    for name in LIBRARIES:
        (folder / name).symlink_to(EMPTY)
    (packages / "lazy_libraries.pth").write_text(
        "import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n"
    )


def discard() -> None:
    """Delete files that only compilers and GPUs need, 0.2 GB."""
    packages = Path(sysconfig.get_path("purelib"))
    for pattern in UNUSED:
        for path in packages.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def compile_imported() -> None:
    """Write bytecode for the modules that stages import, 4,000 of 30,000. Any other module is
    compiled again in each pod that imports it."""
    imported = "; ".join(f"import {name}" for name in IMPORTED.split())
    subprocess.run([sys.executable, "-c", imported], check=True, timeout=600)


if __name__ == "__main__":
    if sys.argv[1:] == ["--finish"]:
        link_libraries()
        discard()
        compile_imported()
    else:
        sys.stdout.write(without_cuda(Path(sys.argv[1]).read_text()))
