"""What passes compute again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learner_bench import spec
from small_shape import LLAMA

from agentrl_components.model import packed_attention
from agentrl_components.sharded import pass_memory
from agentrl_components.sharded.pass_memory import PassSize, Recomputation
from agentrl_components.sharded.recomputation import PassRoom, bytes_to_come
from agentrl_components.spec import Lora

SHAPE = replace(LLAMA, layers=3)
TOKENS = 100
SPEC = spec(model={"dtype": "bfloat16", "context": 64}, update={"microBatchTokens": TOKENS})
COMPILED = spec(
    model={"dtype": "bfloat16", "context": 64},
    update={"microBatchTokens": TOKENS, "compile": True, "gradientCheckpointing": True},
)
BLOCK = 2 * (4 * 16 + 4 * 32 + 6 * 8)
"""Bytes that a block keeps of a token: of norms, feed-forward block and attention."""
INPUT = 2 * 16
"""Bytes of a block's input, of a token."""
COMPILED_UPDATE = {"microBatchTokens": 64, "compile": True, "gradientCheckpointing": True}
SIZE = PassSize(tokens=TOKENS)
ALL, SELECTIVE = Recomputation(blocks=3), Recomputation(selective=True)


def test_the_first_blocks_keep_their_inputs_and_the_others_all():
    some = [Recomputation(blocks=n) for n in range(4)]
    found = [pass_memory.activation_bytes(SPEC, SHAPE, SIZE, again) // TOKENS for again in some]
    # When the last of three blocks computes its activations again, no other keeps any.
    assert found == [3 * BLOCK, INPUT + 2 * BLOCK, 2 * INPUT + BLOCK, 3 * INPUT + BLOCK]


def test_padding_counts_in_the_attention_alone():
    assert pass_memory.block_bytes(SPEC, SHAPE, 1.5) == BLOCK + 2 * 24


def test_compiled_blocks_keep_an_array_less_and_what_is_normalised_twice():
    assert pass_memory.block_bytes(COMPILED, SHAPE) == BLOCK - 2 * 32
    # With padding, the output of the attention is kept with it and without.
    assert pass_memory.block_bytes(COMPILED, SHAPE, 1.5) == BLOCK - 2 * 32 + 2 * (24 + 16)
    normed = replace(SHAPE, normed=True)
    assert pass_memory.block_bytes(COMPILED, normed) == BLOCK - 2 * 32 + 2 * (16 + 8)


def test_selective_blocks_keep_matrix_products_and_the_output_of_attention():
    # Input and middle, gate and up, queries, keys and values, attention.
    kept = 2 * (2 * 16 + 2 * 32 + 16 + 8 + 8 + 16)
    assert pass_memory.block_bytes(COMPILED, SHAPE, selective=True) == kept
    assert pass_memory.block_bytes(COMPILED, SHAPE, 1.5, selective=True) == kept + 2 * (8 + 16)


def test_episodes_are_never_padded_more_than_is_counted():
    assert packed_attention.DENSE_SPEED == pass_memory.PADDING


@pytest.mark.parametrize("settings", [SPEC, COMPILED])
@given(st.integers(min_value=-10_000, max_value=200_000), st.floats(min_value=1, max_value=2))
def test_as_little_is_computed_again_as_there_is_room_for(settings, room, padding):
    size = PassSize(tokens=TOKENS, padding=padding)
    found = pass_memory.least_recomputation(settings, SHAPE, size, room)
    ways = (False, True) if settings is COMPILED else (False,)
    fit = [
        again
        for again in (Recomputation(blocks=n, selective=way) for n in range(3) for way in ways)
        if pass_memory.activation_bytes(settings, SHAPE, size, again) <= room
    ]
    assert found == min(fit, key=lambda again: again.cost(3), default=ALL)


def test_a_block_less_costs_more_than_all_selective_ones():
    assert SELECTIVE.cost(3) == pytest.approx(0.39)
    assert Recomputation(blocks=1, selective=True).cost(3) == pytest.approx(1.26)
    room = pass_memory.activation_bytes(COMPILED, SHAPE, SIZE, SELECTIVE)
    assert pass_memory.least_recomputation(COMPILED, SHAPE, SIZE, room) == SELECTIVE


def test_adapters_are_never_selective():
    lora = COMPILED.model.model_copy(update={"lora": Lora(rank=2, targets=("q_proj",))})
    adapted = COMPILED.model_copy(update={"model": lora})
    room = pass_memory.activation_bytes(COMPILED, SHAPE, SIZE, SELECTIVE)
    assert not pass_memory.least_recomputation(adapted, SHAPE, SIZE, room).selective


def room_of(rank, size, again):
    """The bytes that a pass of `size` needs on a rank whose blocks compute `again`, and with which
    the weights of all blocks stay gathered."""
    blocks = sum(p.numel() for block in rank.policy.blocks() for p in block.parameters())
    return pass_memory.activation_bytes(rank.spec, rank.policy.shape, size, again) + 4 * blocks


def test_a_pass_takes_what_its_own_pack_leaves(folder, open_rank):
    rank = open_rank(folder, update=COMPILED_UPDATE)
    room = room_of(rank, PassSize(tokens=64), SELECTIVE)  # of the largest pack
    fitting = PassRoom([rank.policy], rank.spec, room)
    found = []
    for lengths in ([32, 32], [10], [64, 64]):
        fitting.fit(rank.policy, lengths)
        found.append((rank.policy.recomputed, rank.policy.selective))
    assert found == [(0, True), (0, False), (1, False)]  # there is one block
    fitting.fit(rank.policy, [10])
    size, shape = PassSize(tokens=10), rank.policy.shape
    kept = pass_memory.activation_bytes(rank.spec, shape, size, Recomputation())
    # In place of the logits of a chunk: 64 tokens, 18 bytes.
    assert rank.policy.logits_room == fitting.bytes - kept + 18 * 64 * shape.vocabulary


def test_weights_stay_gathered_where_no_pack_has_to_compute_more_again_for_it(folder, open_rank):
    rank = open_rank(folder, update=COMPILED_UPDATE)
    enough = room_of(rank, PassSize(tokens=64), SELECTIVE)
    assert PassRoom([rank.policy], rank.spec, enough).keeps_weights
    assert not PassRoom([rank.policy], rank.spec, enough - 1).keeps_weights


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
