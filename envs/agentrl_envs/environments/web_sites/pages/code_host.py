"""Pages of the code host."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from agentrl_envs.environments.web_sites.content.code_host import FILES, LABELS, Issue, Project
from agentrl_envs.environments.web_sites.visit import (
    Page,
    Redirect,
    Route,
    Site,
    Visit,
    missing,
    refused,
    search_results,
    whole_number,
)


def home(visit: Visit) -> Page:
    return Page("code_host/home.html", {"projects": visit.state.code_host.projects})


def project(visit: Visit) -> Page:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    values = {"slug": key, "project": shown, "files": FILES, "starred": _starred(visit, key)}
    return Page("code_host/project.html", values)


def star(visit: Visit) -> Page | Redirect:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    host = visit.state.code_host
    if key in host.starred:
        del host.starred[key]
    else:
        host.starred[key] = None
    change = 1 if key in host.starred else -1
    host.projects[key] = replace(shown, stars=shown.stars + change)
    return Redirect(f"/{key}")


def starred(visit: Visit) -> Page:
    host = visit.state.code_host
    chosen = {key: host.projects[key] for key in host.starred}
    return Page("code_host/starred.html", {"projects": chosen})


def commits(visit: Visit) -> Page:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    return Page("code_host/commits.html", {"slug": key, "project": shown})


def members(visit: Visit) -> Page:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    counts = Counter(commit.author for commit in shown.commits)
    rows = [(member, counts[member]) for member in shown.members]
    return Page("code_host/members.html", {"slug": key, "project": shown, "members": rows})


def issues(visit: Visit) -> Page:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    closed = visit.query.get("state") == "closed"
    listed = [each for each in visit.state.code_host.of_project(key) if each.open != closed]
    values = {"slug": key, "project": shown, "issues": listed[::-1][:12], "closed": closed}
    return Page("code_host/issues.html", values)


def new_issue(visit: Visit) -> Page:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    values = {"slug": key, "project": shown, "labels": LABELS}
    return Page("code_host/new_issue.html", values)


def create_issue(visit: Visit) -> Page | Redirect:
    key, shown = _project(visit)
    if shown is None:
        return missing("project")
    title, label, host = visit.form.get("title", ""), visit.form.get("label"), visit.state.code_host
    if not title or label not in LABELS:
        return refused("An issue needs a title and a label.")
    number = 1 + max((issue.number for issue in host.of_project(key)), default=0)
    host.issues[key, number] = Issue(
        project=key,
        number=number,
        title=title,
        author=visit.user,
        assignee="nobody",
        label=label,
        open=True,
    )
    return Redirect(f"/{key}/issues/{number}")


def issue(visit: Visit) -> Page:
    key, shown = _project(visit)
    one = _issue(visit)
    if shown is None or one is None:
        return missing("issue")
    people = ("nobody", *shown.members)
    values = {"slug": key, "project": shown, "issue": one, "people": people, "labels": LABELS}
    return Page("code_host/issue.html", values)


def edit_issue(visit: Visit) -> Page | Redirect:
    _, shown = _project(visit)
    one = _issue(visit)
    if shown is None or one is None:
        return missing("issue")
    assignee, label = visit.form.get("assignee", ""), visit.form.get("label", "")
    if assignee not in ("nobody", *shown.members) or label not in LABELS:
        return refused("The assignee must be a member, and the label one of the labels.")
    return _save(visit, replace(one, assignee=assignee, label=label))


def close_issue(visit: Visit) -> Page | Redirect:
    one = _issue(visit)
    return _save(visit, replace(one, open=not one.open)) if one else missing("issue")


def comment(visit: Visit) -> Page | Redirect:
    one, text = _issue(visit), visit.form.get("comment", "")
    if one is None:
        return missing("issue")
    if not text:
        return refused("The comment must not be empty.")
    return _save(visit, replace(one, comments=(*one.comments, (visit.user, text))))


def search(visit: Visit) -> Page:
    projects = ((item[1].name, item) for item in visit.state.code_host.projects.items())
    return search_results(visit, "code_host/search.html", "projects", projects)


def _project(visit: Visit) -> tuple[str, Project | None]:
    key = visit.path["slug"]
    return key, visit.state.code_host.projects.get(key)


def _issue(visit: Visit) -> Issue | None:
    number = whole_number(visit.path["number"], 1, 999_999)
    if number is None:
        return None
    return visit.state.code_host.issues.get((visit.path["slug"], number))


def _save(visit: Visit, changed: Issue) -> Redirect:
    visit.state.code_host.issues[changed.project, changed.number] = changed
    return Redirect(f"/{changed.project}/issues/{changed.number}")


def _starred(visit: Visit, key: str) -> bool:
    return key in visit.state.code_host.starred


SITE = Site(
    name="gitlab",
    title="Code Harbor",
    links={"Projects": "/", "Starred": "/starred"},
    search="Search projects",
    routes=(
        Route("GET", "/", home),
        Route("GET", "/starred", starred, login=True),
        Route("GET", "/search", search),
        Route("GET", "/{slug}", project),
        Route("POST", "/{slug}/star", star, login=True),
        Route("GET", "/{slug}/commits", commits),
        Route("GET", "/{slug}/members", members),
        Route("GET", "/{slug}/issues", issues),
        Route("GET", "/{slug}/issues/new", new_issue, login=True),
        Route("POST", "/{slug}/issues/new", create_issue, login=True),
        Route("GET", "/{slug}/issues/{number}", issue),
        Route("POST", "/{slug}/issues/{number}", edit_issue, login=True),
        Route("POST", "/{slug}/issues/{number}/close", close_issue, login=True),
        Route("POST", "/{slug}/issues/{number}/comments", comment, login=True),
    ),
)
