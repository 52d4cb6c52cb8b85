from dataclasses import dataclass, field

import pytest

from agentrl_envs.environments.web.evaluators import grade, includes, program_html, url_match
from agentrl_envs.environments.web.locators import Step, parse_locator
from agentrl_envs.environments.web.sites import Addresses
from agentrl_envs.environments.web.task_config import TaskConfig
from agentrl_envs.errors import TaskError

ADDRESSES = Addresses({"shopping": "http://127.0.0.1:7770", "gitlab": "http://127.0.0.1:8023"})


@dataclass
class Pages:
    """A browser that has stopped: texts by URL and locator. `unsaved`: texts that the agent has
    left on its page, until a page is loaded."""

    url: str = "http://127.0.0.1:7770/"
    texts: dict[tuple[str, tuple[Step, ...]], str] = field(default_factory=dict)
    unsaved: dict[tuple[Step, ...], str] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)

    async def open(self, url: str) -> None:
        self.url, self.unsaved = url, {}
        self.loads.append(url)

    async def read(self, steps: tuple[Step, ...]) -> str | None:
        return self.unsaved.get(steps, self.texts.get((self.url, steps)))


def evaluated(**evaluation) -> TaskConfig:
    kinds = [
        kind
        for kind, name in (
            ("string_match", "reference_answers"),
            ("url_match", "reference_url"),
            ("program_html", "program_html"),
        )
        if name in evaluation
    ]
    return TaskConfig.model_validate(
        {
            "sites": ["shopping"],
            "intent": "how much is it?",
            "start_url": "__SHOPPING__",
            "eval": {"eval_types": kinds, **evaluation},
        }
    )


async def answered(answer: str, judge=None, note: str = "", **references) -> float:
    config = evaluated(reference_answers=references, string_note=note)
    return await grade(config, answer, Pages(), ADDRESSES, judge)


@pytest.mark.parametrize(
    ("answer", "score"),
    [("$12", 1), (' "$12" ', 1), ("$12.", 0), ("it costs $12", 0), ("", 0)],
)
async def test_an_exact_answer_may_differ_in_case_quotes_and_spaces_only(answer, score):
    assert await answered(answer, exact_match="$12") == score


@pytest.mark.parametrize(
    ("answer", "score"),
    [("2", 1), ("about 2 mugs.", 1), ("it is 2.", 1), ("12 mugs", 0), ("2.5 mugs", 0), ("1-2", 0)],
)
async def test_a_single_character_must_be_a_word_of_the_answer(answer, score):
    assert await answered(answer, must_include=["2"]) == score


@pytest.mark.parametrize(
    ("answer", "reference"), [("order 000000299", "299"), ("16x24in", "16x24"), ("112 mugs", "12")]
)
async def test_a_longer_word_may_be_a_part_of_a_word_of_the_answer(answer, reference):
    assert await answered(answer, must_include=[reference]) == 1


async def test_every_part_must_be_included():
    assert await answered("Red Mug and blue mug", must_include=["red mug", "blue"]) == 1
    assert await answered("red mug", must_include=["red mug", "blue"]) == 0


async def test_a_fuzzy_match_without_a_judge_is_an_error_that_names_the_option():
    with pytest.raises(TaskError, match=r"fuzzy_match: .*set the option judge"):
        await answered("twelve dollars", fuzzy_match=["$12"])


@dataclass
class Judge:
    """Finds one answer right; keeps what it was asked."""

    right: str
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def means_the_same(self, intent: str, reference: str, answer: str) -> bool:
        self.asked.append(("same", intent, reference, answer))
        return answer == self.right

    async def gives_the_reason(self, intent: str, reason: str, answer: str) -> bool:
        self.asked.append(("reason", intent, reason, answer))
        return answer == self.right


async def test_a_fuzzy_match_asks_the_judge_that_is_configured():
    judge = Judge("twelve dollars")
    assert await answered("twelve dollars", judge, fuzzy_match=["$12"]) == 1
    assert await answered("ten dollars", judge, fuzzy_match=["$12"]) == 0
    assert judge.asked[0] == ("same", "how much is it?", "$12", "twelve dollars")


async def test_an_answer_to_a_task_that_cannot_be_done_is_na_or_its_reason():
    judge = Judge("it is sold out")
    task = {"note": "no mug is left", "fuzzy_match": "N/A"}
    assert await answered("n/a", judge, **task) == 1
    assert not judge.asked
    assert await answered("it is sold out", judge, **task) == 1
    assert await answered("I do not know", judge, **task) == 0
    assert judge.asked[0] == ("reason", "how much is it?", "no mug is left", "it is sold out")


@pytest.mark.parametrize(
    ("reference", "url", "matches"),
    [
        ("__SHOPPING__/mug", "http://127.0.0.1:7770/mug", True),
        ("__SHOPPING__/mug", "http://127.0.0.1:7770/mug/", True),
        ("__SHOPPING__/mug", "http://127.0.0.1:7770/cup", False),
        ("__SHOPPING__/cup |OR| __SHOPPING__/mug", "http://127.0.0.1:7770/mug", True),
        ("__SHOPPING__/find?q=mug", "http://127.0.0.1:7770/find?sort=up&q=mug", True),
        ("__SHOPPING__/find?q=mug", "http://127.0.0.1:7770/find?sort=up&q=red+mug", False),
        ("__SHOPPING__/shoes?price=0-25", "http://127.0.0.1:7770/shoes?price=0-250", False),
        ("__SHOPPING__/find?q=mug", "http://127.0.0.1:7770/find?sort=up", False),
        ("__GITLAB__/mug", "http://127.0.0.1:7770/mug", False),
    ],
)
def test_a_url_matches_by_host_path_and_query(reference, url, matches):
    evaluation = evaluated(reference_url=reference).evaluation
    assert url_match(evaluation, url, ADDRESSES) is matches


PRICE = "document.querySelector('#price').outerText"


def target(url: str = "last", locator: str = PRICE, **contents):
    return {"url": url, "locator": locator, "required_contents": contents}


async def test_an_element_is_looked_at_on_the_last_page_or_on_another():
    steps = parse_locator(PRICE)
    pages = Pages(texts={("http://127.0.0.1:7770/mug", steps): "$12"})
    config = evaluated(program_html=[target("__SHOPPING__/mug", exact_match="$12")])
    assert await program_html(config.evaluation.program_html, pages, ADDRESSES)
    config = evaluated(program_html=[target(exact_match="$12")])
    assert not await program_html(config.evaluation.program_html, Pages(), ADDRESSES)


async def test_the_last_page_is_the_agents_even_after_another_was_looked_at():
    steps = parse_locator(PRICE)
    pages = Pages(
        texts={("http://127.0.0.1:7770/", steps): "a", ("http://127.0.0.1:7770/b", steps): "b"}
    )
    targets = [target("__SHOPPING__/b", exact_match="b"), target(exact_match="a")]
    assert await program_html(
        evaluated(program_html=targets).evaluation.program_html, pages, ADDRESSES
    )


@pytest.mark.parametrize(
    ("address", "passes", "loads"),
    [("__SHOPPING__/mug", False, ["http://127.0.0.1:7770/mug"]), ("last", True, [])],
)
async def test_a_page_that_a_target_names_is_loaded_also_where_the_agent_stands_on_it(
    address, passes, loads
):
    mug, steps = "http://127.0.0.1:7770/mug", parse_locator(PRICE)
    pages = Pages(mug, {(mug, steps): "$12"}, {steps: "$13"})
    config = evaluated(program_html=[target(address, exact_match="$13")])
    assert await program_html(config.evaluation.program_html, pages, ADDRESSES) is passes
    assert pages.loads == loads


async def test_a_page_that_two_targets_in_succession_name_is_loaded_once():
    mug, steps = "http://127.0.0.1:7770/mug", parse_locator(PRICE)
    pages = Pages(mug, {(mug, steps): "$12"})
    targets = [target("__SHOPPING__/mug", must_include=[each]) for each in ("$", "12")]
    config = evaluated(program_html=targets)
    assert await program_html(config.evaluation.program_html, pages, ADDRESSES)
    assert pages.loads == [mug]


async def test_alternatives_are_separated_by_or():
    steps = parse_locator(PRICE)
    pages = Pages(texts={("http://127.0.0.1:7770/", steps): "twelve dollars"})
    for contents, passes in (
        ({"must_include": ["$12 |OR| twelve"]}, True),
        ({"must_include": ["$12 |OR| twelve", "euro"]}, False),
        ({"exact_match": "$12 |OR| Twelve dollars"}, True),
    ):
        config = evaluated(program_html=[target(**contents)])
        found = await program_html(config.evaluation.program_html, pages, ADDRESSES)
        assert found is passes


async def test_the_score_is_the_product_of_the_evaluators():
    both = {"reference_answers": {"exact_match": "yes"}, "reference_url": "__SHOPPING__/mug"}
    there = Pages(url="http://127.0.0.1:7770/mug")
    assert await grade(evaluated(**both), "yes", there, ADDRESSES, None) == 1
    assert await grade(evaluated(**both), "no", there, ADDRESSES, None) == 0
    assert await grade(evaluated(**both), "yes", Pages(), ADDRESSES, None) == 0


def test_upstream_evaluates_a_tasks_locator_as_javascript_and_here_it_is_parsed():
    for code in (
        "document.querySelector('#a').remove()",
        "(() => fetch('http://evil.example'))()",
        "document.cookie",
        "document.querySelector(`${alert(1)}`).value",
        "document.querySelector('#a').outerText; alert(1)",
        "document['defaultView']['eval']('1')",
    ):
        with pytest.raises(TaskError, match="is not understood"):
            parse_locator(code)


@pytest.mark.parametrize(
    ("locator", "steps"),
    [
        ("", ()),
        (
            "document.querySelector('#a [b=\"c\"]').outerText",
            (("querySelector", '#a [b="c"]'), ("read", "outerText")),
        ),
        (
            'document.querySelectorAll("li")[2].children[0].value',
            (
                ("querySelectorAll", "li"),
                ("index", 2),
                ("walk", "children"),
                ("index", 0),
                ("read", "value"),
            ),
        ),
        (
            'document.getElementById("x").nextElementSibling.innerText',
            (("getElementById", "x"), ("walk", "nextElementSibling"), ("read", "innerText")),
        ),
    ],
)
def test_locators_are_parsed_into_steps(locator, steps):
    assert parse_locator(locator) == steps


def test_a_part_is_looked_for_without_case_and_spaces():
    assert includes("  Red\n mug ", "red mug", by_word=False)
