"""Check that a release tag names the version of the package and of the chart.

    python hack/release/version.py v0.1.0

Prints version=0.1.0, or the places that differ, with exit status 1.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def differences(tag: str, root: Path = ROOT) -> list[str]:
    """Each place whose version is not that of `tag`, with the version found there."""
    version = tag.removeprefix("v")
    chart = (root / "helm/agentrl/Chart.yaml").read_text(encoding="utf-8")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {"pyproject.toml": project["version"]}
    for field in ("version", "appVersion"):
        match = re.search(rf"^{field}: *\"?([^\"\s]+)", chart, re.MULTILINE)
        found[f"helm/agentrl/Chart.yaml {field}"] = match.group(1) if match else "missing"
    return [f"{place}: {one}" for place, one in found.items() if one != version]


def main() -> int:
    """Print the version for GITHUB_OUTPUT."""
    tag = sys.argv[1]
    wrong = differences(tag)
    if wrong:
        print(f"{tag} is not the version in: {'; '.join(wrong)}", file=sys.stderr)
        return 1
    print(f"version={tag.removeprefix('v')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
