from __future__ import annotations

import sys

import pytest

from agentrl_components.errors import SpecError
from agentrl_components.spec.parsing.document import document, value


def _mistakes(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        document(text, "run.yaml")
    return caught.value.mistakes


def test_numbers_with_an_exponent_are_floats():
    assert document("a: 1e-3\nb: -2E+1\nc: .5\nd: 3", "f") == {
        "a": 0.001,
        "b": -20.0,
        "c": 0.5,
        "d": 3,
    }


def test_a_date_is_a_string():
    assert document("revision: 2026-01-02", "f") == {"revision": "2026-01-02"}


def test_off_is_false_as_in_kubectl():
    assert document("mode: off", "f") == {"mode": False}


def test_a_value_keeps_its_type():
    assert [value(text) for text in ("3", "1e-6", "true", "null", "a b", "[1, 2]", "'3'")] == [
        3, 1e-6, True, None, "a b", [1, 2], "3",
    ]  # fmt: skip


def test_a_duplicate_key_is_reported_with_both_lines():
    assert _mistakes("spec:\n  seed: 1\n  suspend: false\n  seed: 2\nkind: a\nkind: b") == [
        "run.yaml: line 6: kind is a duplicate of line 5; remove one of them",
        "run.yaml: line 4: seed is a duplicate of line 2; remove one of them",
    ]


def test_merged_anchors_can_be_overridden():
    text = "a: &base {x: 1, y: 2}\nb:\n  <<: *base\n  y: 3"
    assert document(text, "f")["b"] == {"x": 1, "y": 3}


def test_a_key_that_is_not_a_string_is_reported():
    assert _mistakes("on: 1\n3: 2") == [
        'run.yaml: line 1: the key on is not a string; write "on"',
        'run.yaml: line 2: the key 3 is not a string; write "3"',
    ]


def test_a_yaml_syntax_error_is_reported_with_line_and_column():
    assert _mistakes("spec:\n  seed: [1, 2\nkind: x") == [
        "run.yaml: line 3, column 5: expected ',' or ']', but got ':'; correct the YAML there"
    ]


def test_a_tab_character_is_reported():
    assert _mistakes("spec:\n\tseed: 1") == [
        "run.yaml: line 2, column 1: a tab character; indent with spaces"
    ]


def test_a_second_document_in_a_file_is_reported():
    assert _mistakes("kind: a\n---\nkind: b") == [
        "run.yaml: line 2, column 1: a second document starts here; write one manifest per file"
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "nothing"),
        ("# later", "nothing"),
        ("- a", "a list"),
        ("kind", "a string"),
        ("3", "a number"),
    ],
)
def test_a_document_that_is_not_a_mapping_is_reported(text, kind):
    assert _mistakes(text) == [
        f"run.yaml: contains {kind}; write a mapping of apiVersion, kind, metadata and spec"
    ]


@pytest.mark.parametrize("text", ["a: !!set {x}", "a: !!binary aGk=", "a: &b [*b]", r'a: "\ud800"'])
def test_yaml_without_a_json_equivalent_is_rejected(text):
    assert _mistakes(text) == [
        "run.yaml: has no JSON equivalent; use only plain values, lists and mappings"
    ]


def test_python_objects_are_never_constructed():
    (line,) = _mistakes("a: !!python/object/apply:os.system [ls]")
    assert "could not determine a constructor for the tag" in line


def test_control_characters_are_rejected():
    (line,) = _mistakes("a: \x00")
    assert line.startswith("run.yaml: is not valid YAML: ")


@pytest.mark.parametrize("limit", [1000, 60_000])
@pytest.mark.parametrize("text", ["a: " + "[" * 3000, "a: " + "[" * 3000 + "]" * 3000])
def test_deep_nesting_is_rejected_whatever_the_recursion_limit(text, limit):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        assert _mistakes(text) == ["run.yaml: is nested deeper than 64 levels; flatten it"]
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("text", ["a: 1\n---\n", "---\n---\na: 1\n", "---\na: 1\n...\n---\n"])
def test_documents_without_content_are_skipped(text):
    assert document(text, "run.yaml") == {"a": 1}


def test_64_levels_are_accepted_and_65_are_not():
    assert document("a: " + "[" * 63 + "1" + "]" * 63, "run.yaml")
    assert _mistakes("a: " + "[" * 64 + "1" + "]" * 64) == [
        "run.yaml: is nested deeper than 64 levels; flatten it"
    ]


def test_exponentially_nested_aliases_are_rejected():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert _mistakes("\n".join(lines)) == [
        "run.yaml: has more than 100000 values; remove YAML aliases"
    ]


def test_exponentially_nested_merges_are_rejected():
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 30)]
    (line,) = _mistakes("\n".join(lines))
    assert "a merge of too many mappings" in line
