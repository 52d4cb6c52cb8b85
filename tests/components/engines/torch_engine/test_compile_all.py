"""Machine code that an image ships."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl_components.model.kernels.compiled import SHIPPED, use_shipped_code

COUNT = """
from agentrl_components.engines.torch_engine import compile_all
compile_all.main()
from agentrl_components.engines.torch_engine.kernels.layer import run_layer
from agentrl_components.model.kernels.attention import attention_gradients
for function in (run_layer, attention_gradients):
    print(sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values()))
"""


def counts(**folders: Path) -> list[str]:
    """Functions loaded and compiled by a process."""
    named = {name: str(folder) for name, folder in folders.items()}
    ran = subprocess.run(
        [sys.executable, "-c", COUNT], env=os.environ | named, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_a_process_uses_the_machine_code_that_its_image_ships(tmp_path):
    shipped = tmp_path / "shipped"
    assert counts(NUMBA_CACHE_DIR=shipped) == ["0 1", "0 1"]
    assert counts(NUMBA_CACHE_DIR=tmp_path / "pod", **{SHIPPED: shipped}) == ["1 0", "1 0"]


def test_machine_code_is_copied_once(tmp_path):
    """A process that started earlier may have added to the copy."""
    shipped, used = tmp_path / "shipped", tmp_path / "used"
    (shipped / "kernels").mkdir(parents=True)
    (shipped / "kernels" / "code").write_text("old")
    use_shipped_code(str(shipped), str(used))
    (used / "kernels" / "code").write_text("new")
    use_shipped_code(str(shipped), str(used))
    assert (used / "kernels" / "code").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shipped", "used"]


def test_nothing_is_copied_where_no_image_ships_machine_code(tmp_path):
    use_shipped_code(None, str(tmp_path / "used"))
    use_shipped_code(str(tmp_path / "missing"), None)
    assert not (tmp_path / "used").exists()
