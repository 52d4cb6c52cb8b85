"""The benchmark of staged and fixed horizons, with a small budget of turns."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HORIZON = Path(__file__).parents[2] / "benchmarks/horizon.py"


@pytest.mark.slow
def test_each_arm_of_each_seed_uses_its_turns_and_is_evaluated(tmp_path):
    out, root = tmp_path / "horizon.json", tmp_path / "runs"
    options = ["--quick", "--staged", "3,8", "--fixed", "4", "--root", str(root), "--out", str(out)]
    command = [sys.executable, str(HORIZON), *options]
    for _ in range(2):  # the second time from the stored outcomes
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        written = json.loads(out.read_text())
        found = [(one["seed"], one["arm"], one["n"]) for one in written["outcomes"]]
        assert found == [
            *[(0, "staged", 20), (0, "fixed 4", 20)],
            *[(1, "staged", 20), (1, "fixed 4", 20)],
        ]
        # The last iteration may take an arm beyond its 400 turns: 4 groups of 8, 8 turns at most.
        assert all(400 <= one["turns"] < 400 + 4 * 8 * 8 for one in written["outcomes"])
    assert out.with_suffix(".png").is_file()
