import re

import pytest
from free_ports import silent_port
from web_pages import Site, needs_chromium
from web_tasks import config, task, task_set

from agentrl_envs.browser.thread import shared_browser
from agentrl_envs.env import Step
from agentrl_envs.environments.web import WebEnvironment
from agentrl_envs.errors import CapacityError, SessionError, TaskError

pytestmark = needs_chromium


@pytest.fixture
def play(site: Site, tmp_path):
    """Resets to a task and takes replies; returns the last step. Sessions are closed at the end."""
    opened: list[WebEnvironment] = []

    def start(*replies: str, options: dict | None = None, **values):
        environment = task_set(tmp_path, site.url, **(options or {})).environment()
        opened.append(environment)
        first = environment.reset(task(**values))
        steps = [environment.step(reply) for reply in replies]
        return steps[-1] if steps else first

    yield start
    for environment in opened:
        environment.close()


def text_after(step: Step, marker: str) -> str:
    return step.observation.text.partition(marker)[2].partition("\n")[0]


def test_the_observation_is_webarenas(play):
    assert play().text == (
        "OBSERVATION:\nTab 0 (current): Home\n\n"
        "[1] RootWebArea 'Home' focused: True\n"
        "\t[2] heading 'Small shop'\n"
        "\t[3] link 'Red mug'\n"
        "\t[4] link 'Tall page'\n"
        "\t[5] link 'New tab'\n"
        "\t[6] link 'Outside'\n"
        "\t[7] link 'Broken'\n"
        "\t[8] form ''\n"
        "\t\t[9] textbox 'Search' required: False\n"
        "\t\t[10] button 'Find'\n"
        "\t[11] form ''\n"
        "\t\t[12] combobox 'Colour' hasPopup: menu expanded: False\n"
        "\t\t\t[13] option 'red' selected: True\n"
        "\t\t\t[14] option 'blue' selected: False\n"
        "\t[15] StaticText 'Three mugs in stock'\n"
        "URL: http://onestopmarket.com/\n"
        "OBJECTIVE: tell the price of the red mug\n"
        "PREVIOUS ACTION: None"
    )


def test_generated_text_quotation_marks_and_icons_of_a_font_are_shown(play):
    first = play(start="__SHOPPING__/generated")
    texts = re.findall(r"StaticText '(.*)'", first.text)
    assert texts == ["Price: ", "$12", r"\uf007", "so ", "“", "cheap", "”"]
    step = play("```click [4]```", start="__SHOPPING__/generated")
    assert text_after(step, "URL: ") == "http://onestopmarket.com/"


def test_a_link_is_clicked_and_the_answer_is_graded(play):
    step = play("```click [3]```", "The price. ```stop [$12]```")
    assert "[2] heading 'Red mug'" in step.observation.text
    assert (step.reward, step.terminated, step.success) == (1.0, True, True)


def test_a_wrong_answer_ends_the_task_without_reward(play):
    step = play("```stop [$13]```")
    assert (step.reward, step.terminated, step.success) == (0.0, True, False)


def test_after_the_end_there_is_no_second_reward(play):
    step = play("```stop [$12]```", "```stop [$12]```")
    assert (step.reward, step.terminated, step.wellformed) == (0.0, True, False)


def test_text_is_typed_and_sent_by_enter_unless_0_is_given(play):
    assert "Results for blue mug" in play("```type [9] [blue mug]```").observation.text
    assert "[10] StaticText 'blue mug'" in play("```type [9] [blue mug] [0]```").observation.text


def test_typing_replaces_the_text_of_a_field_except_in_compat(play):
    replies = ("```type [9] [red] [0]```", "```type [9] [blue] [0]```")
    assert "StaticText 'blue'" in play(*replies).observation.text
    strict = play(*replies, options={"compat": "agentgym"})
    assert "StaticText 'redblue'" in strict.observation.text


def test_an_option_of_a_list_is_chosen_by_a_click(play):
    assert "[14] option 'blue' selected: True" in play("```click [14]```").observation.text


def test_scrolling_moves_the_viewport(play):
    step = play("```scroll [down]```", start="__SHOPPING__/tall")
    assert "Bottom link" not in step.observation.text
    assert "Top link" not in step.observation.text
    step = play("```scroll [down]```", "```scroll [down]```", start="__SHOPPING__/tall")
    assert "Bottom link" in step.observation.text


def test_tabs_are_opened_focused_and_closed(play):
    step = play("```click [5]```")
    assert "Tab 0: Home | Tab 1 (current): Mug" in step.observation.text
    step = play("```click [5]```", "```tab_focus [0]```")
    assert "Tab 0 (current): Home | Tab 1: Mug" in step.observation.text
    step = play("```click [5]```", "```close_tab```")
    assert "Tab 0 (current): Home\n" in step.observation.text


def test_history_goes_back_and_forward(play):
    assert text_after(play("```click [3]```", "```go_back```"), "URL: ").endswith(".com/")
    step = play("```click [3]```", "```go_back```", "```go_forward```")
    assert text_after(step, "URL: ") == "http://onestopmarket.com/mug"
    assert "there is no page to go to" in play("```go_back```").observation.text


def test_goto_takes_public_addresses_of_the_sites(play):
    step = play("```goto [http://onestopmarket.com/mug]```")
    assert text_after(step, "URL: ") == "http://onestopmarket.com/mug"


@pytest.mark.parametrize(
    "url",
    [
        "http://outside.example/",
        "http://onestopmarket.com.evil.example/",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "chrome://version",
        "data:text/html,x",
        "view-source:http://onestopmarket.com/",
    ],
)
def test_goto_elsewhere_is_refused(play, url):
    step = play(f"```goto [{url}]```")
    assert "is outside the sites" in step.observation.text
    assert step.wellformed is False


def test_a_link_that_leaves_the_sites_is_undone(play):
    step = play("```click [6]```")
    assert step.observation.text.startswith("http://outside.example/ is outside the sites")
    assert text_after(step, "URL: ") == "http://onestopmarket.com/"


def test_upstream_pauses_after_each_action_and_here_what_a_page_loads_later_is_waited_for(play):
    step = play("```click [2]```", start="__SHOPPING__/late")
    assert "button 'loaded'" in step.observation.text


def test_upstream_shows_an_exceptions_text_as_observation_and_here_the_session_is_lost(play):
    with pytest.raises(SessionError, match=r"/broken: the site answered 500"):
        play("```click [7]```")


def test_a_page_that_hangs_loses_the_session_and_the_next_reset_works(site, tmp_path):
    environment = task_set(tmp_path, site.url, timeout_s=3).environment()
    environment.reset(task(start="__SHOPPING__/stuck"))
    with pytest.raises(SessionError, match="no answer within 3 s"):
        environment.step("```click [2]```")
    with pytest.raises(SessionError, match="lost"):
        environment.step("```click [2]```")
    assert "Small shop" in environment.reset(task()).text
    environment.close()


def test_a_site_that_is_down_loses_the_session(tmp_path):
    with silent_port() as port:
        environment = task_set(tmp_path, f"http://127.0.0.1:{port}").environment()
        with pytest.raises(SessionError, match=r"ERR_CONNECTION_REFUSED.*start the site"):
            environment.reset(task())
        environment.close()


def test_a_site_that_is_not_configured_is_an_error_that_names_it(play):
    with pytest.raises(TaskError, match=r"site 'gitlab' is not served here"):
        play(sites=("gitlab",), start="__GITLAB__/")


def test_a_task_that_starts_on_none_of_the_sites_is_an_error_that_names_the_address(play):
    with pytest.raises(TaskError, match=r"start_url: __HOMEPAGE__/ is on none of the sites"):
        play(start="__HOMEPAGE__/")


def test_a_task_on_a_site_that_is_not_configured_is_refused_when_tasks_are_read(tmp_path):
    tasks = task_set(tmp_path, "http://127.0.0.1:1", [config(sites=("gitlab",))])
    with pytest.raises(TaskError, match=r"site 'gitlab', which is not in web\.options\.sites"):
        tasks.size("train")


def test_nothing_of_an_episode_is_left_in_the_next_one(site, tmp_path):
    environment = task_set(tmp_path, site.url).environment()
    seen = []
    for _ in range(3):
        first = environment.reset(task(start="__SHOPPING__/store"))
        seen.append(first.text.partition("StaticText ")[2].partition("\n")[0])
        environment.step("```goto [http://onestopmarket.com/mug]```")
    assert seen == ["'cookie , local 0, session 0, name , history 2'"] * 3
    environment.close()


def test_the_url_is_graded(play):
    wanted = {"reference_url": "__SHOPPING__/mug"}
    assert play("```click [3]```", "```stop```", intent="open the mug", **wanted).success
    assert not play("```stop```", intent="open the mug", **wanted).success


@pytest.mark.parametrize("ends", [False, True])
def test_a_task_that_asks_for_a_page_ends_there_where_the_options_say_so(play, ends):
    wanted = {"reference_url": "__SHOPPING__/mug"}
    step = play("```click [3]```", options={"end_on_page": ends}, **wanted)
    assert (step.terminated, step.success, step.reward) == (ends, ends, float(ends))


def test_an_element_of_a_page_is_graded(play):
    program = {
        "url": "__SHOPPING__/mug",
        "locator": "document.querySelector('#price').outerText",
        "required_contents": {"exact_match": "$12"},
    }
    assert play("```stop```", program_html=[program]).success
    program = {**program, "locator": "document.querySelector('#none').outerText"}
    assert not play("```stop```", program_html=[program]).success


@pytest.mark.parametrize(
    ("address", "success"),
    [("last", True), ("__SHOPPING__/mug", False), ("__SHOPPING__/mug#amount", False)],
)
def test_input_that_was_not_saved_counts_on_the_last_page_only(play, address, success):
    program = {
        "url": address,
        "locator": "document.querySelector('#amount').value",
        "required_contents": {"exact_match": "5"},
    }
    replies = ("```type [8] [5] [0]```", "```stop```")
    step = play(*replies, start="__SHOPPING__/mug", program_html=[program])
    assert step.success is success


def test_upstream_never_grades_an_episode_that_reaches_its_turn_cap_and_here_it_is_graded(play):
    wanted = {"reference_url": "__SHOPPING__/mug"}
    step = play("```click [3]```", options={"turn_limit": 1}, **wanted)
    assert (step.truncated, step.terminated, step.success) == (True, False, True)
    strict = {"turn_limit": 1, "compat": "agentgym"}
    step = play("```click [3]```", options=strict, **wanted)
    assert (step.truncated, step.success, step.reward) == (True, False, 0.0)


def test_upstream_says_nothing_of_an_element_that_is_not_there_and_here_a_message_does(play):
    step = play("```click [99]```")
    assert step.observation.text.startswith("no element [99] is on the page")
    assert step.wellformed is False
    step = play("```click [99]```", options={"compat": "agentgym"})
    assert step.observation.text.startswith("OBSERVATION:")


def test_a_login_is_made_once_and_reused(site, tmp_path):
    accounts = {"shopping": {"username": "ann", "password": "secret"}}
    tasks = task_set(tmp_path, site.url, accounts=accounts)
    before = site.logins
    first, second = tasks.environment(), tasks.environment()
    for environment in (first, second, first):
        seen = environment.reset(task(start="__SHOPPING__/account", login=True))
        assert "Hello ann" in seen.text
    assert "Nobody" in first.reset(task(start="__SHOPPING__/account")).text
    assert site.logins - before == 1
    first.close()
    second.close()


@pytest.fixture
def accounts(site, tmp_path):
    """The account page of two sessions that are logged in, and the sessions."""
    found = {"shopping": {"username": "ann", "password": "secret"}}
    tasks = task_set(tmp_path, site.url, accounts=found)
    sessions = tasks.environment(), tasks.environment()
    wanted = task(start="__SHOPPING__/account", login=True)
    yield lambda session: session.reset(wanted).text, sessions
    for session in sessions:
        session.close()


def test_a_session_that_signs_out_logs_out_no_session_that_begins_later(site, accounts):
    page, (first, second) = accounts
    before = site.logins
    seen = page(first)
    number = seen.partition("] link 'Sign out'")[0].rpartition("[")[2]
    assert "See you" in first.step(f"```click [{number}]```").observation.text
    assert "Hello ann" in page(second)
    assert "Hello ann" in page(first)
    assert site.logins - before == 2


def test_a_login_that_the_site_has_forgotten_is_made_again_in_the_same_reset(site, accounts):
    page, (first, second) = accounts
    before = site.logins
    assert "Hello ann" in page(first)
    site.sessions.clear()
    assert "Hello ann" in page(second)
    assert "Hello ann" in page(first)
    assert site.logins - before == 2


def test_an_account_that_is_refused_is_an_error_that_names_it(site, tmp_path):
    accounts = {"shopping": {"username": "ann", "password": "wrong"}}
    environment = task_set(tmp_path, site.url, accounts=accounts).environment()
    with pytest.raises(TaskError, match=r"accounts\.shopping: .*refused the account 'ann'"):
        environment.reset(task(login=True))
    environment.close()


def test_upstream_starts_a_browser_for_each_session_and_here_sessions_share_one(site, tmp_path):
    tasks = task_set(tmp_path, site.url)
    sessions = [tasks.environment() for _ in range(3)]
    for session in sessions:
        session.reset(task())
    assert shared_browser(frozenset({site.host})).launches == 1
    for session in sessions:
        session.close()


def test_a_session_above_the_bound_is_refused_until_another_is_closed(site, tmp_path):
    first, second = (task_set(tmp_path, site.url, sessions=1).environment() for _ in range(2))
    first.reset(task())
    with pytest.raises(CapacityError, match="all 1 sessions are in use"):
        second.reset(task())
    first.close()
    second.reset(task())
    second.close()


def test_upstream_overwrites_the_addresses_of_sites_and_here_the_options_name_them(site, tmp_path):
    before = len(site.requests)
    environment = task_set(tmp_path, site.url).environment()
    environment.reset(task(start="__SHOPPING__/mug"))
    assert "/mug" in site.requests[before:]
    environment.close()
