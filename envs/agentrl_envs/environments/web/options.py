"""Options of the `web` environment."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentrl_envs.variables import is_of_another_service, is_sent_home

Text = Literal["agentgym", "terse"]


class Account(BaseModel):
    """How to log in to a site."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    username: str
    password: str = ""
    password_env: str = ""
    """Environment variable that holds the password: keeps it out of the manifest. None of another
    service, such as `AWS_SECRET_ACCESS_KEY`."""
    path: str = "/login"
    """Page with the login form, relative to the site's base URL."""

    @field_validator("password_env")
    @classmethod
    def _of_the_site(cls, name: str) -> str:
        if is_of_another_service(name):
            raise ValueError(f"{name} is a variable of another service; use another name")
        return name


class Judge(BaseModel):
    """An OpenAI-compatible endpoint that compares answers (WebArena's `fuzzy_match`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    """Base URL, such as `https://judge.example/v1`."""
    model: str
    key_env: str = ""
    """Environment variable that holds the API key. That of a service, such as `OPENAI_API_KEY`,
    only with its address, `https://api.openai.com/v1`."""
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    """Most tokens of a reply, with the thoughts of a model that thinks before it answers."""

    @model_validator(mode="after")
    def _of_the_endpoint(self) -> Self:
        if is_of_another_service(self.key_env) and not is_sent_home(self.key_env, self.url):
            raise ValueError(
                f"key_env: {self.key_env} is a variable of another service than {self.url}; use "
                "another name"
            )
        return self


class WebOptions(BaseModel):
    """Options of the `web` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sites: dict[str, str] = {}
    """Base URL of each site by WebArena's name (`shopping: http://shop.example:7770`). Pages reach
    these hosts and no other. Empty: the sites of this package, served by the process itself."""
    tasks: str = ""
    """File with a JSON list of tasks in WebArena's form, or a folder of one file a task. Needed
    with `sites`. Empty: the generated tasks of this package's sites."""
    evaluation_only: bool = False
    """Hold out all tasks of `tasks`, so that none is trained on. Else the hash of a task's sites
    and intent decides its split."""
    accounts: dict[str, Account] = {}
    """Accounts by site, for tasks that start logged in: `username`, `password` or `password_env`,
    and `path` of the login page."""
    categories: tuple[str, ...] = ()
    """Categories to deal tasks of: sites, or `mixed`. Empty: all."""
    templates: tuple[str, ...] = ()
    """Own sites: names of the templates to deal tasks of, such as `code/open-tab`. Empty: all."""
    max_clicks: Annotated[int, Field(ge=1, le=100)] = 100
    """Own sites: deal tasks that a solution of so many actions solves, besides `stop`."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Own sites: seed of their content and of the tasks."""
    contents: Annotated[int, Field(ge=1, le=100)] = 1
    """Own sites: number of generated contents, of the seeds `seed`, `seed + 1` and so on, each with
    its tasks. More contents give more varied pages and goals."""
    text: Text = "agentgym"
    """WebArena's observation and actions as AgentGym words them, or a few words and a list of
    actions, for small models."""
    compat: Literal["none", "agentgym"] = "none"
    """`agentgym` keeps AgentGym's rules: typing appends to a field, an element that is not there
    goes unmentioned, the first of several actions is taken, one without backticks is refused, and
    an episode that reaches the turn limit is not graded."""
    turn_limit: Annotated[int, Field(ge=1, le=1000)] = 30
    """Turns after which the environment truncates an episode."""
    grade_at_limit: bool = True
    """Whether an episode that reaches the turn limit is graded as if it had stopped without an
    answer. Never with `compat: agentgym`."""
    end_on_page: bool = False
    """Whether a task that is graded by its last page alone (`url_match`) ends, solved, as soon as
    that page is open. Otherwise, as in WebArena, the agent has to stop there."""
    sessions: Annotated[int, Field(ge=1, le=4096)] = 64
    """Sessions that may be open at once in a process: each is a process of Chromium, of about
    100 MB. One more is refused as busy. For a run without servers, `rollout.concurrency` must not
    be larger."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds after which an action, or a page that does not load, loses the session."""
    judge: Judge | None = None
    """Endpoint of the model that compares answers of `fuzzy_match` tasks: `url`, `model`, `key_env`
    and `max_tokens`. Without one such tasks are refused."""

    @field_validator("sites")
    @classmethod
    def _addresses(cls, sites: dict[str, str]) -> dict[str, str]:
        for name, url in sites.items():
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{name}: {url!r} is no http address")
        return sites

    @model_validator(mode="after")
    def _tasks_go_with_sites(self) -> WebOptions:
        if bool(self.sites) != bool(self.tasks):
            raise ValueError(
                "sites and tasks go together: name both, or neither for this package's own sites"
            )
        if self.evaluation_only and not self.tasks:
            raise ValueError("evaluation_only: holds out the tasks of `tasks`; name a file of them")
        return self
