"""Encoded texts are kept, as many as a limit of tokens allows."""

from agentrl_components.dialogue.text_cache import ENTRY, TextCache


class Encoder:
    """Encodes each word of a text as its length, and counts its calls."""

    def __init__(self):
        self.texts = []
        """The texts that were encoded, in order."""

    def __call__(self, text):
        self.texts.append(text)
        return tuple(map(len, text.split()))


def test_long_texts_that_all_differ_take_no_more_than_the_limit():
    encoder = Encoder()
    cache = TextCache(encoder, limit=10_000)
    for number in range(100):
        assert len(cache(f"{number} " + "door " * 999)) == 1000
    assert cache.tokens == 9 * (1000 + ENTRY)
    cache(encoder.texts[91])  # one of the last nine
    assert len(encoder.texts) == 100
    cache(encoder.texts[90])
    assert len(encoder.texts) == 101


def test_a_text_that_is_used_again_is_kept_longest():
    encoder = Encoder()
    cache = TextCache(encoder, limit=2 * (1 + ENTRY))
    for text in ("a", "b", "a", "c"):
        cache(text)
    assert encoder.texts == ["a", "b", "c"]
    cache("a")
    assert encoder.texts == ["a", "b", "c"]
    cache("b")
    assert encoder.texts == ["a", "b", "c", "b"]


def test_a_text_beyond_the_limit_is_encoded_and_not_kept():
    encoder = Encoder()
    cache = TextCache(encoder, limit=20)
    assert cache("go") == (2,)
    assert cache("door " * 20) == (4,) * 20
    assert cache.tokens == 0
