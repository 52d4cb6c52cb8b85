from pathlib import Path

import pytest

from agentrl_components.evaluation.published import PUBLISHED, row_name
from agentrl_components.rollout.tasks import shares
from agentrl_components.spec.parsing.load import load
from agentrl_components.spec.rules.environments.vocabulary import check_vocabularies
from agentrl_envs.registry import task_set

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "evaluation").glob("*.yaml"))
ALL = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.mark.parametrize("file", ALL, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_the_model_of_an_example_knows_the_words_of_its_environments(file):
    check_vocabularies(load(file).spec)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_evaluation_manifest_has_the_number_of_tasks_and_turns_of_the_released_script(file):
    spec, published = load(file).spec, PUBLISHED[file.stem]
    assert spec.evaluation.tasks == sum(published.counts.values())
    assert spec.horizon.phases[-1].max_turns == published.max_turns
    assert spec.evaluation.temperature == 1.0
    assert all(each.options.get("compat") == "agentgym" for each in spec.environments)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_evaluation_manifest_has_the_tasks_of_each_row_of_the_papers_table(file):
    spec, published = load(file).spec, PUBLISHED[file.stem]
    counts = dict.fromkeys(published.counts, 0)
    if len(spec.environments) > 1:
        drawn = shares([each.weight for each in spec.environments], spec.evaluation.tasks)
        for each, share in zip(spec.environments, drawn, strict=True):
            counts[row_name(f"{each.name}/")] += share
    else:
        tasks = task_set(spec.environments[0].builtin, spec.environments[0].options)
        for index in range(spec.evaluation.tasks):
            task = tasks.task("heldout", index)
            counts[row_name(f"{spec.environments[0].name}/{task.category}")] += 1
    assert counts == published.counts
