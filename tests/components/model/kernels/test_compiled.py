"""Machine code on disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import agentrl_components
from agentrl_components.model.kernels.compiled import kernel_modules, version_of

SHARES = """
import numpy as np
from agentrl_components.model.kernels.softmax import softmax
scores = np.zeros(16, np.float32)
scores[1] = -1
softmax(scores, 2, np.zeros(16, np.int32))
print(*scores[:2].round(2))
print(sum(softmax.stats.cache_hits.values()))
"""


def shares(package: Path) -> list[str]:
    """The softmax of 0 and -1 by the package below a folder, and how often code was on disk."""
    environment = os.environ | {"PYTHONPATH": str(package)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", SHARES]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_function_is_compiled_again_if_one_that_it_calls_has_changed(tmp_path):
    (source,) = agentrl_components.__path__
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, tmp_path / "agentrl_components", ignore=ignored)
    assert shares(tmp_path) == ["0.73 0.27", "0"]
    assert shares(tmp_path) == ["0.73 0.27", "1"]
    layers = tmp_path / "agentrl_components" / "model" / "kernels" / "layers.py"
    # `softmax`, which is in another file, calls a function that takes smaller numbers as this one.
    layers.write_text(layers.read_text().replace("SMALLEST = -87.0", "SMALLEST = 0.0"))
    assert shares(tmp_path) == ["0.5 0.5", "0"]


def test_the_version_depends_on_names_and_content_and_not_on_the_order(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("x = 1\n")
    two.write_text("x = 2\n")
    before = version_of([one, two])
    assert version_of([two, one]) == before
    assert version_of([one]) != before
    two.write_text("x = 3\n")
    assert version_of([one, two]) != before


def test_all_folders_of_kernels_count_for_the_version():
    (package,) = agentrl_components.__path__
    assert sorted(kernel_modules()) == sorted(Path(package).rglob("kernels/*.py"))
