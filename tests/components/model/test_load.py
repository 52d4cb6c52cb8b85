"""Model folders: creating, opening and exporting them, and errors for damaged ones."""

import json

import pytest
import torch
from safetensors.torch import save
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentrl_components.dialogue.open import open_dialogue, open_tokenizer
from agentrl_components.errors import ModelError
from agentrl_components.model.load import INDEX, WEIGHTS, export_weights, open_decoder, read_weights
from agentrl_components.model.shape import read_native
from agentrl_components.model.sources import fetch_model, make_tiny
from agentrl_components.spec import Model
from agentrl_components.spec.fields.model import Tiny

WORDS = ("red", "ball", "go", "left", "right")
TINY = Model(source="tiny", context=64, tiny=Tiny(layers=1, hidden=24, heads=3, intermediate=32))


@pytest.fixture
def folder(tmp_path):
    return make_tiny(TINY, WORDS, 7, tmp_path / "model")


def opened(folder):
    return open_decoder(folder, torch.float32, torch.device("cpu"))


def test_a_tiny_model_is_a_function_of_the_seed_and_the_words(tmp_path):
    first = make_tiny(TINY, WORDS, 7, tmp_path / "a")
    same = make_tiny(TINY, WORDS[::-1], 7, tmp_path / "b")
    other = make_tiny(TINY, WORDS, 8, tmp_path / "c")
    weights = [(folder / WEIGHTS).read_bytes() for folder in (first, same, other)]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_transformers_opens_a_tiny_model_whole(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer) == len(open_tokenizer(folder))
    ours = export_weights(opened(folder))
    theirs = model.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in ours.items())


def test_a_tiny_model_speaks_as_transformers_reads_its_tokenizer(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    opening = open_dialogue(folder, "auto", tiny=True).opening("go left", "red ball")
    assert opening == tokenizer.encode("<obs> go left red ball <act>")
    assert open_dialogue(folder, "plain", tiny=False).encode_action("go red dragon") == [
        *tokenizer.encode("go red"),
        tokenizer.unk_token_id,
    ]


def test_a_file_source_is_used_in_place(folder, tmp_path):
    model = Model(source=f"file://{folder}")
    assert fetch_model(model, WORDS, 0, tmp_path / "unused") == folder
    assert not (tmp_path / "unused").exists()


def test_a_folder_without_a_config_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"file:///nowhere: no config\.json there"):
        fetch_model(Model(source="file:///nowhere"), WORDS, 0, tmp_path)


def test_weights_in_several_files_are_read_through_their_index(folder):
    weights = read_weights(folder)
    (folder / WEIGHTS).unlink()
    places = {}
    for number, name in enumerate(weights):
        places[name] = f"part-{number % 2}.safetensors"
    for file in set(places.values()):
        held = {n: t for n, t in weights.items() if places[n] == file}
        (folder / file).write_bytes(save(held))
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))
    again = export_weights(opened(folder))
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in weights)


@pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": []}'])
def test_an_index_that_is_none_is_named(folder, index):
    (folder / INDEX).write_text(index)
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json"):
        read_weights(folder)


def test_a_missing_file_of_weights_is_named(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors: cannot be read"):
        opened(folder)


@pytest.mark.parametrize("keep", [0, 7, 200, -1])
def test_damaged_weights_are_named(folder, keep):
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:keep])
    with pytest.raises(ModelError, match=r"model\.safetensors: cannot be read"):
        opened(folder)


def test_a_tensor_of_another_shape_is_named(folder):
    weights = read_weights(folder)
    weights["model.norm.weight"] = torch.ones(25)
    (folder / WEIGHTS).write_bytes(save(weights))
    with pytest.raises(ModelError, match=r"model\.norm\.weight"):
        opened(folder)


def test_missing_and_unknown_tensors_are_named(folder):
    weights = read_weights(folder)
    weights["model.extra"] = weights.pop("model.norm.weight")
    (folder / WEIGHTS).write_bytes(save(weights))
    with pytest.raises(ModelError) as error:
        opened(folder)
    assert "missing ['model.norm.weight'], unknown ['model.extra']" in str(error.value)


def test_frequencies_that_earlier_versions_of_transformers_saved_are_not_read(folder):
    weights = read_weights(folder)
    frequencies = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    (folder / WEIGHTS).write_bytes(save(weights | frequencies))
    assert opened(folder).state_dict().keys() == weights.keys()


def test_an_untied_model_needs_a_head_of_its_own(folder):
    config = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    assert not read_native(folder).tied
    with pytest.raises(ModelError, match=r"lm_head\.weight"):
        opened(folder)


def test_a_folder_without_a_tokenizer_is_named(folder):
    for file in folder.glob("token*"):
        file.unlink()
    with pytest.raises(ModelError, match="its tokenizer cannot be used"):
        open_tokenizer(folder)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tokenizer.json", "[]"),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"version": "1.0", "added_tokens": [], "model": {"type": "Other"}}'),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"tokenizer_class": "TokenizersBackend", "eos_token": 3}'),
        ("tokenizer_config.json", '{"tokenizer_class": 3}'),
        ("added_tokens.json", "3"),
    ],
)
def test_a_damaged_file_of_the_tokenizer_is_refused_with_the_folder(folder, file, text):
    (folder / file).write_text(text)
    with pytest.raises(ModelError, match=f"{folder}: its tokenizer cannot be used"):
        open_tokenizer(folder)


def test_a_tokenizer_that_transformers_makes_up_without_its_files_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(ModelError, match="it has no token for a letter"):
        open_tokenizer(folder)


def test_bfloat16_weights_are_exported_as_bfloat16_and_positions_are_not_rounded(folder):
    decoder = open_decoder(folder, torch.bfloat16, torch.device("cpu"))
    assert {tensor.dtype for tensor in export_weights(decoder).values()} == {torch.bfloat16}
    exact = opened(folder).get_buffer("frequencies")
    assert torch.equal(decoder.get_buffer("frequencies"), exact)
