"""How many blocks recompute their activations."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from learner_bench import spec
from small_shape import LLAMA

from agentrl_components.model import packed_attention
from agentrl_components.sharded import pass_memory
from agentrl_components.sharded.recomputation import bytes_to_come

SHAPE = replace(LLAMA, layers=3)
TOKENS = 100
SPEC = spec(model={"dtype": "bfloat16", "context": 64}, update={"microBatchTokens": TOKENS})
BLOCK = 2 * (4 * 16 + 4 * 32 + 6 * 8)
"""Bytes that a block keeps of a token: of norms, feed-forward block and attention."""
INPUT = 2 * 16
"""Bytes of a block's input, of a token."""


def test_the_first_blocks_keep_their_inputs_and_the_others_all():
    found = [pass_memory.activation_bytes(SPEC, SHAPE, n) // TOKENS for n in range(4)]
    # When the last of three blocks computes its activations again, no other keeps any.
    assert found == [3 * BLOCK, INPUT + 2 * BLOCK, 2 * INPUT + BLOCK, 3 * INPUT + BLOCK]


def test_padding_counts_in_the_attention_alone():
    assert pass_memory.block_bytes(SPEC, SHAPE, 1.5) == BLOCK + 2 * 24


def test_compiled_blocks_keep_an_array_less():
    fields = SPEC.update.model_copy(update={"compile": True})
    compiled = SPEC.model_copy(update={"update": fields})
    assert pass_memory.block_bytes(compiled, SHAPE) == BLOCK - 2 * 32


def test_episodes_are_never_padded_more_than_is_counted():
    assert packed_attention.DENSE_SPEED == pass_memory.PADDING


@given(st.integers(min_value=-10_000, max_value=200_000), st.floats(min_value=1, max_value=2))
def test_as_few_blocks_recompute_as_there_is_room_for(room, padding):
    number = pass_memory.fewest_recomputed(SPEC, SHAPE, room, padding)
    fits = [pass_memory.activation_bytes(SPEC, SHAPE, n, padding) <= room for n in range(3)]
    assert not any(fits[:number])
    assert number == 3 or fits[number]


def test_a_rank_will_take_twelve_bytes_a_parameter_and_what_a_pass_gathers(folder, open_rank):
    rank = open_rank(folder)
    shape, total = rank.policy.shape, sum(p.numel() for p in rank.policy.parameters())
    block = sum(p.numel() for p in rank.policy.model.layers[0].parameters())
    outside = (shape.vocabulary + 1) * shape.hidden
    assert total == shape.layers * block + outside
    settings = spec()
    # Of two blocks the weights, in float32, and of one the gradient; of the others both.
    gathered = 12 * block + 8 * outside
    logits = 18 * shape.vocabulary * 64  # the tokens of a pack
    assert bytes_to_come([rank.policy], settings) == 12 * total + gathered + logits


def test_a_critic_adds_its_state_and_what_is_outside_of_its_blocks(folder, open_rank):
    settings = spec(algorithm={"name": "ppo"})
    rank = open_rank(folder, algorithm={"name": "ppo"})
    both = bytes_to_come([rank.policy, rank.critic.decoder], settings)
    shape, total = rank.policy.shape, sum(p.numel() for p in rank.policy.parameters())
    outside = (shape.vocabulary + 1) * shape.hidden
    assert both - bytes_to_come([rank.policy], settings) == 12 * total + 8 * outside
