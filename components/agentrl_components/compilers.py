"""The compilers that torch and Triton call at run time."""

from __future__ import annotations

import os
import shutil


def compiler_names(*, gpu: bool) -> list[str]:
    """Commands of which one has to be on PATH, the preferred first: of a C compiler, which Triton
    calls for GPUs, or of the C++ compiler that torch calls for CPUs."""
    if gpu:
        return [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    return [os.environ.get("CXX", "g++")]


def compiler(device: str) -> str | None:
    """The path of the program that compiles kernels for `device`. None: it is not installed."""
    names = compiler_names(gpu=device != "cpu")
    return next((found for found in map(shutil.which, names) if found), None)
