"""No code of a model's folder is executed, whatever is asked or answered."""

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrl_components.dialogue.open import open_tokenizer
from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.foreign.open import counted

ROOT = Path(__file__).parents[3]
PACKAGES = ("components", "pipelines", "envs", "operator")
LOADERS = ("from_pretrained", "from_config", "EngineArgs", "AsyncEngineArgs", "LLM")
"""Functions and methods of transformers and vLLM that may execute code of a model's folder."""

CODE = """
from pathlib import Path

Path(__file__).with_name("executed").touch()
Path({proof!r}).touch()


class Own:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of a kind that transformers does not know, with code of its own; whoever is asked
    whether to execute it answers yes."""
    model = {
        "model_type": "own",
        "architectures": ["Own"],
        "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"},
    }
    tokenizer = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (tmp_path / "config.json").write_text(json.dumps(model))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (tmp_path / "own.py").write_text(CODE.format(proof=str(tmp_path / "executed")))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    return tmp_path


def test_a_model_with_code_of_its_own_is_refused_and_its_code_is_not_executed(folder: Path):
    with pytest.raises(ArchitectureError, match=r"config\.json: transformers cannot read it"):
        counted(folder)
    assert not (folder / "executed").exists()


def test_a_tokenizer_with_code_of_its_own_is_refused_and_its_code_is_not_executed(folder: Path):
    with pytest.raises(ModelError, match="its tokenizer cannot be used"):
        open_tokenizer(folder)
    assert not (folder / "executed").exists()


def loading_calls() -> Iterator[tuple[str, ast.Call]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if name in LOADERS:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_every_call_that_opens_a_model_forbids_the_code_of_its_folder():
    """Without the argument transformers asks on the terminal."""
    calls = list(loading_calls())
    assert len(calls) >= 7
    allowed = [
        place
        for place, call in calls
        if not any(
            one.arg == "trust_remote_code"
            and isinstance(one.value, ast.Constant)
            and one.value.value is False
            for one in call.keywords
        )
    ]
    assert allowed == []
