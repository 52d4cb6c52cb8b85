"""The workflows, hooks and templates under .github, and .pre-commit-config.yaml."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT, make_targets

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SYSTEM = {"cd", "echo", "sudo", "test", "mkdir"}
"""Commands of the runner that a step may call beside files and targets of the repository."""


def workflow(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_command_of_a_workflow_is_a_make_target_or_a_file_of_the_repository(path: Path):
    commands = [line for step in steps(path) for line in step.get("run", "").splitlines()]
    for command in commands:
        program, *arguments = shlex.split(re.sub(r"\$\{\{.*?\}\}", "X", command))
        if program == "make":
            assert set(arguments) <= make_targets(), command
        elif program == "python":
            assert (ROOT / arguments[0]).is_file(), command
        elif program not in SYSTEM:
            assert (ROOT / program).is_file(), command
            assert (ROOT / program).stat().st_mode & 0o111, f"{program} is not executable"
    assert commands


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_local_workflows_exist(path: Path):
    text = path.read_text(encoding="utf-8")
    uses = re.findall(r"uses: (\S+)(.*)", text)
    for action, comment in uses:
        if action.startswith("./"):
            assert (ROOT / action).is_file()
        else:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), action
            assert re.match(r" # v\d+\.\d+\.\d+", comment), f"{action}: name the version"
    assert uses


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_the_repository_and_each_job_asks_for_what_it_writes(path: Path):
    loaded = workflow(path)
    assert loaded["permissions"] == {"contents": "read"}
    for name, job in loaded["jobs"].items():
        assert "write-all" not in str(job.get("permissions", {})), name
        if "uses" not in job:
            assert job["timeout-minutes"] <= 120, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_workflow_names_a_registry_or_keeps_the_checkouts_token(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\b(ghcr|docker|quay|gcr|pypi)\.(io|com|org)\b", text)
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_ci_runs_the_script_that_runs_everything_and_docs_builds_the_site():
    (ci,) = (step["run"] for step in steps(ROOT / ".github/workflows/ci.yml") if "run" in step)
    assert ci == ".ci/run"
    built = [step.get("run") for step in steps(ROOT / ".github/workflows/docs.yml")]
    assert "make docs" in built


def test_a_release_builds_each_image_of_the_dockerfile_with_provenance():
    job = workflow(ROOT / ".github/workflows/release.yml")["jobs"]["images"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^FROM base AS (\S+)", dockerfile, re.MULTILINE)) - {"code"}
    built = {row["target"]: row["platforms"] for row in job["strategy"]["matrix"]["include"]}
    assert set(built) == targets
    both = "linux/amd64,linux/arm64"
    assert built == dict.fromkeys(targets, both) | {"trainer": "linux/amd64"}
    (build,) = (step["with"] for step in job["steps"] if step.get("id") == "build")
    assert (build["provenance"], build["sbom"]) == ("mode=max", True)


def test_a_release_is_refused_unless_the_tag_is_the_version_of_package_and_chart():
    script = ROOT / "hack/release/version.py"

    def run(tag: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), tag]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.findall(r'^version = "(.+)"', project, re.MULTILINE)[0]
    accepted, refused = run(f"v{version}"), run("v99.0.0")
    assert (accepted.returncode, accepted.stdout) == (0, f"version={version}\n")
    assert refused.returncode == 1
    for place in ("pyproject.toml", "Chart.yaml version", "Chart.yaml appVersion"):
        assert f"{place}: {version}" in refused.stderr


def test_the_hooks_of_pre_commit_run_what_make_check_runs_and_download_nothing():
    loaded = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in loaded["repos"]] == ["local"]
    hooks = loaded["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    entries = {hook["entry"].replace(" --force-exclude", "") for hook in hooks}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    checks = re.findall(r"^\t@?\$\(BIN\)/((?:ruff|lint-imports|mypy).*)$", makefile, re.MULTILINE)
    assert entries == {f".venv/bin/{check.removesuffix(' .')}" for check in checks}


def test_issue_forms_have_what_github_requires():
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert [form.stem for form in forms] == ["bug", "feature"]
    for form in forms:
        loaded = workflow(form)
        assert loaded["name"]
        assert loaded["description"]
        for field in loaded["body"]:
            assert field["type"] in {"textarea", "input"}
            assert field["attributes"]["label"]
