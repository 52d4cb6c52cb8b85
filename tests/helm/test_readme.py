"""The README of the chart, which `helm show readme` prints."""

import subprocess
from pathlib import Path

import chart_values
import pytest
from rendered import CHART

README = (CHART / "README.md").read_text(encoding="utf-8")


def test_the_tables_of_values_are_those_that_the_script_writes() -> None:
    assert chart_values.readme(README) == README


def test_a_row_has_the_type_the_default_and_the_comment_of_a_value() -> None:
    assert (
        "| `pollSeconds` | number above 0 to 3600 | `5` "
        "| Seconds between two reconciliations of a running run. |\n"
    ) in README
    assert "| `kueue.admission` | `pods`, `run` | `pods` | Unit of admission for runs" in README
    assert (
        "| `mlflow.resources` | mapping "
        "| `{requests: {cpu: 100m, memory: 512Mi}, limits: {memory: 2Gi}}` "
        "| Resources of its container. |\n"
    ) in README


def test_no_text_of_the_tables_reads_as_html() -> None:
    """Regression: `http://ml-pipeline.<namespace>.svc:8888` loses its middle in Markdown."""
    assert "<" not in chart_values.tables()


def test_a_readme_without_the_mark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"README\.md: lacks the line <!-- Generated"):
        chart_values.readme("# The chart\n")


def test_the_first_run_in_the_readme_is_the_one_in_the_notes() -> None:
    first_run = (CHART / "files/first-run.yaml").read_text(encoding="utf-8")
    assert f"apply -f - <<'EOF'\n{first_run}EOF\n" in README


def test_the_packaged_chart_shows_the_readme(helm: str, tmp_path: Path) -> None:
    for command in (
        ["package", str(CHART), "--version", "1.2.3", "--destination", str(tmp_path)],
        ["show", "readme", str(tmp_path / "agentrl-1.2.3.tgz")],
    ):
        ended = subprocess.run(
            [helm, *command], capture_output=True, text=True, timeout=300, check=True
        )
    assert ended.stdout.strip() == README.strip()
