"""Content of the code host: projects, files, commits, issues and stars."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentrl_envs.environments.web_sites.content.words import ADJECTIVES, draws, people

SUBJECTS = ("river", "lantern", "harbor", "maple", "comet", "anchor")
KINDS = ("parser", "server", "editor", "player", "tracker", "compiler")
LABELS = ("bug", "feature", "question")
FAULTS = ("crash", "warning", "delay", "typo", "leak", "freeze")
PARTS = ("login", "menu", "search", "export", "startup", "installer")
CHANGES = ("add", "remove", "fix", "test", "document")
LICENSES = ("apache", "mit", "gpl")
LANGUAGES = ("python", "rust", "java")
FILES = ("readme", "license", "main", "tests", "config")

ISSUES_PER_PROJECT = 6
COMMITS_PER_PROJECT = 8
MEMBERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    author: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    name: str
    language: str
    license: str
    stars: int
    members: tuple[str, ...]
    commits: tuple[Commit, ...]
    """Newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    project: str
    """Slug of the project."""
    number: int
    title: str
    author: str
    assignee: str
    """A member, or `nobody`."""
    label: str
    open: bool
    comments: tuple[tuple[str, str], ...] = ()
    """Author and text."""


@dataclass(slots=True, kw_only=True)
class CodeHost:
    """What a session can change in the code host; see `shop.Shop`."""

    projects: dict[str, Project]
    """Keyed by slug."""
    issues: dict[tuple[str, int], Issue]
    """Sorted by slug of the project and number, ascending."""
    starred: dict[str, None]
    """Slugs of projects, in the order in which they were starred."""

    def copy(self) -> CodeHost:
        return CodeHost(
            projects=dict(self.projects), issues=dict(self.issues), starred=dict(self.starred)
        )

    def of_project(self, slug: str) -> list[Issue]:
        return [issue for issue in self.issues.values() if issue.project == slug]


def generate_code_host(random: Random) -> CodeHost:
    """Six projects with six issues and eight commits each."""
    projects: dict[str, Project] = {}
    issues: dict[tuple[str, int], Issue] = {}
    for subject, kind in zip(SUBJECTS, random.sample(KINDS, len(KINDS)), strict=True):
        name = f"{subject} {kind}"
        key = f"{subject}-{kind}"
        members = tuple(people(random, MEMBERS))
        messages = draws(random, CHANGES, ADJECTIVES, PARTS)
        projects[key] = Project(
            name=name,
            language=random.choice(LANGUAGES),
            license=random.choice(LICENSES),
            stars=random.randint(1, 90),
            members=members,
            commits=tuple(
                Commit(author=random.choice(members), message=next(messages))
                for _ in range(COMMITS_PER_PROJECT)
            ),
        )
        titles = draws(random, FAULTS, ("in",), PARTS)
        for number in range(1, ISSUES_PER_PROJECT + 1):
            issues[key, number] = Issue(
                project=key,
                number=number,
                title=next(titles),
                author=random.choice(members),
                assignee=random.choice((*members, "nobody")),
                label=random.choice(LABELS),
                open=random.random() < 0.7,
            )
    return CodeHost(projects=projects, issues=issues, starred={})
