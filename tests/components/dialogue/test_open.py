"""Opening the tokenizer of a model folder."""

import base64
import json

import pytest
from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.open import open_tokenizer
from agentrl_components.dialogue.tokenizer import Codec
from agentrl_components.dialogue.word_tokenizer import save, word_tokenizer

SPECIAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>")


def tekken() -> dict[str, object]:
    """A tokenizer in the format of Mistral whose tokens are the bytes."""
    return {
        "config": {
            "pattern": r"[^\s]+|\s+",
            "num_vocab_tokens": 256,
            "default_vocab_size": 256 + len(SPECIAL),
            "default_num_special_tokens": len(SPECIAL),
            "version": "v3",
        },
        "vocab": [
            {
                "rank": byte,
                "token_bytes": base64.b64encode(bytes([byte])).decode(),
                "token_str": chr(byte) if byte < 128 else None,
            }
            for byte in range(256)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": text, "is_control": True}
            for rank, text in enumerate(SPECIAL)
        ],
    }


def test_a_folder_with_a_tokenizer_in_mistrals_format_too_has_that_of_transformers(tmp_path):
    pytest.importorskip("mistral_common", reason="vLLM, which has it, is not installed")
    save(word_tokenizer(("go", "north")), tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "LlamaTokenizerFast"})
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mistral"}))
    (tmp_path / "tekken.json").write_text(json.dumps(tekken()))

    tokenizer = open_tokenizer(tmp_path)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    ids = Codec(tokenizer).encode("go north")
    assert tokenizer.convert_ids_to_tokens(list(ids)) == ["go", "north"]
