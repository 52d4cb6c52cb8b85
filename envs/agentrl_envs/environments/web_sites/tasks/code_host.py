"""Tasks in the code host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product as pairs

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.content.code_host import (
    FAULTS,
    ISSUES_PER_PROJECT,
    LABELS,
    Issue,
)
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import (
    Click,
    Fill,
    Move,
    OneSite,
    SiteTask,
    base,
)

SITE = "gitlab"
BASE = base(SITE)
task = OneSite(SITE).task
TABS = ("issues", "commits", "members")


def open_tab(state: State) -> Iterator[SiteTask]:
    """One or two clicks: a tab of a project."""
    for (slug, project), tab in pairs(state.code_host.projects.items(), TABS):
        yield task(
            "code/open-tab",
            "show the {{tab}} of the {{project}}",
            {"tab": tab, "project": project.name},
            [Click(project.name), Click(tab.capitalize())],
            url=f"{BASE}/{slug}/{tab}",
        )


def open_issue(state: State) -> Iterator[SiteTask]:
    """Three or four clicks: project, issues, issue."""
    for issue in state.code_host.issues.values():
        yield task(
            "code/open-issue",
            "open the {{state}} issue {{title}} of the {{project}}",
            {
                "state": "open" if issue.open else "closed",
                "title": issue.title,
                "project": _project(state, issue),
            },
            _way(state, issue),
            url=f"{BASE}/{issue.project}/issues/{issue.number}",
        )


def tell_license(state: State) -> Iterator[SiteTask]:
    """One click and an answer."""
    for project in state.code_host.projects.values():
        yield task(
            "code/tell-license",
            "what is the license of the {{project}} ?",
            {"project": project.name},
            [Click(project.name)],
            answer=project.license,
        )


def tell_commits(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer."""
    for project in state.code_host.projects.values():
        counts = Counter(commit.author for commit in project.commits)
        for member in project.members:
            yield task(
                "code/tell-commit-count",
                "how many commits has {{member}} made to the {{project}} ?",
                {"member": member, "project": project.name},
                [Click(project.name), Click("Members")],
                answer=str(counts[member]),
            )


def star(state: State) -> Iterator[SiteTask]:
    """Two clicks."""
    for project in state.code_host.projects.values():
        yield task(
            "code/star",
            "give a star to the {{project}}",
            {"project": project.name},
            [Click(project.name), Click("Star")],
            program=[(f"{BASE}/starred", "#projects", "must_include", project.name)],
        )


def close(state: State) -> Iterator[SiteTask]:
    """Four clicks."""
    for issue in state.code_host.issues.values():
        if issue.open:
            yield task(
                "code/close-issue",
                "close the issue {{title}} of the {{project}}",
                {"title": issue.title, "project": _project(state, issue)},
                [*_way(state, issue), Click("Close issue")],
                program=[(_page(issue), "#state", "exact_match", "closed")],
            )


def assign(state: State) -> Iterator[SiteTask]:
    """Five moves of an open issue, six of a closed one."""
    for issue in state.code_host.issues.values():
        for member in state.code_host.projects[issue.project].members:
            if member != issue.assignee:
                yield task(
                    "code/assign-issue",
                    "assign the {{state}} issue {{title}} of the {{project}} to {{member}}",
                    {
                        "state": "open" if issue.open else "closed",
                        "title": issue.title,
                        "project": _project(state, issue),
                        "member": member,
                    },
                    [*_way(state, issue), Click(member), Click("Save")],
                    program=[
                        (
                            f"{BASE}/{issue.project}/issues"
                            + ("" if issue.open else "?state=closed"),
                            f"#issue-{issue.number}",
                            "exact_match",
                            f"{issue.label}, {member}",
                        )
                    ],
                )


def file(state: State) -> Iterator[SiteTask]:
    """Six moves: project, issues, new, title, label, create. The page at the end is checked too."""
    for (slug, project), fault, label in pairs(state.code_host.projects.items(), FAULTS, LABELS):
        title = f"{fault} after update"
        number = ISSUES_PER_PROJECT + 1
        page = f"{BASE}/{slug}/issues/{number}"
        yield task(
            "code/file-issue",
            "file an issue {{title}} with the label {{label}} for the {{project}}",
            {"title": title, "label": label, "project": project.name},
            [
                Click(project.name),
                Click("Issues"),
                Click("New issue"),
                Fill("Title", title),
                Click(label),
                Click("Create issue"),
            ],
            url=page,
            program=[
                (page, "h1", "exact_match", title),
                (page, "#author", "exact_match", ACCOUNTS[SITE].username),
                (f"{BASE}/{slug}/issues", f"#issue-{number}", "exact_match", f"{label}, nobody"),
            ],
        )


def _project(state: State, issue: Issue) -> str:
    return state.code_host.projects[issue.project].name


def _page(issue: Issue) -> str:
    return f"{BASE}/{issue.project}/issues/{issue.number}"


def _way(state: State, issue: Issue) -> list[Move]:
    """The moves from the list of projects to an issue."""
    closed: list[Move] = [] if issue.open else [Click("Closed issues")]
    return [Click(_project(state, issue)), Click("Issues"), *closed, Click(issue.title)]


TEMPLATES = (open_tab, open_issue, tell_license, tell_commits, star, close, assign, file)
