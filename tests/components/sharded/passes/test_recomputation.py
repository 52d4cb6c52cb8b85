"""What passes compute again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learner_bench import spec
from small_shape import LLAMA
from torch.nn import Linear

from agentrl_components.model import packed_attention
from agentrl_components.sharded.passes import pass_memory
from agentrl_components.sharded.passes.pass_memory import PassSize, Recomputation
from agentrl_components.sharded.passes.recomputation import PassRoom, bytes_to_come, whole_bytes
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
CHECKPOINTING = spec(
    model={"dtype": "bfloat16", "context": 64},
    update={"microBatchTokens": TOKENS, "gradientCheckpointing": True},
)
COMPILED_UPDATE = {"microBatchTokens": 64, "compile": True, "gradientCheckpointing": True}
SIZE = PassSize(tokens=TOKENS)
SELECTIVE = Recomputation(selective=True)


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
    assert packed_attention.DENSE_SPEED == pass_memory.MAX_PADDING


@pytest.mark.parametrize("settings", [SPEC, CHECKPOINTING, COMPILED])
@given(
    room=st.integers(min_value=-10_000, max_value=200_000),
    padding=st.floats(min_value=1, max_value=2),
    free=st.integers(min_value=0, max_value=TOKENS),
)
def test_as_little_is_computed_again_as_there_is_room_for(settings, room, padding, free):
    size = PassSize(tokens=TOKENS, padding=padding, free=free)
    found = pass_memory.least_recomputation(settings, SHAPE, size, room)
    most = 3 if settings.update.gradient_checkpointing else 0
    ways = [Recomputation(blocks=n) for n in range(most + 1)]
    if settings is COMPILED:
        ways += [replace(way, selective=True) for way in ways if way.blocks < 3]
        ways += [replace(way, logits=False) for way in ways if free]
    costs = [
        way.cost(SHAPE, size)
        for way in ways
        if pass_memory.activation_bytes(settings, SHAPE, size, way) <= room
    ]
    if costs:
        assert found in ways
        assert found.cost(SHAPE, size) == min(costs)
        assert pass_memory.activation_bytes(settings, SHAPE, size, found) <= room
    else:
        assert found == Recomputation(blocks=most)


def test_a_block_less_costs_more_than_all_selective_ones():
    assert SELECTIVE.cost(SHAPE, SIZE) == pytest.approx(0.39)
    assert Recomputation(blocks=1, selective=True).cost(SHAPE, SIZE) == pytest.approx(1.26)
    room = pass_memory.activation_bytes(COMPILED, SHAPE, SIZE, SELECTIVE)
    assert pass_memory.least_recomputation(COMPILED, SHAPE, SIZE, room) == SELECTIVE


def test_logits_cost_their_product_beside_those_of_a_block():
    size = replace(SIZE, free=50)
    # Weights for each hidden number: 23 of the head, 48 of attention and 96 of feed-forward.
    assert Recomputation().cost(SHAPE, size) == pytest.approx(50 * 23 / (100 * (48 + 96)))
    assert Recomputation(logits=False).cost(SHAPE, size) == 0


def test_logits_that_are_kept_take_their_memory_beside_that_of_a_chunk():
    settings = spec(model={"dtype": "bfloat16"}, update={"compile": True, "logitsChunk": 16})
    size = replace(SIZE, free=300)
    kept, again = (
        pass_memory.activation_bytes(settings, SHAPE, size, Recomputation(logits=way))
        for way in (False, True)
    )
    # Two bytes for a logit, whose gradient takes its place; 18 for each of a chunk.
    assert kept - again == 300 * 23 * 2 - 16 * 23 * 18


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
    rank = open_rank(folder, divided=True, update=COMPILED_UPDATE)
    room = room_of(rank, PassSize(tokens=64), SELECTIVE)  # of the largest pack
    fitting = PassRoom([rank.policy], rank.spec, room)
    found = []
    for lengths in ([32, 32], [10], [64, 64]):
        fitting.fit(rank.policy, lengths)
        found.append((rank.policy.recomputed, rank.policy.selective))
    assert found == [(0, True), (0, False), (1, False)]  # there is one block
    for free, kept in ((8, True), (0, False)):
        fitting.fit(rank.policy, [10], free)
        assert rank.policy.keeps_logits == kept


def test_weights_stay_gathered_where_no_pack_has_to_compute_more_again_for_it(folder, open_rank):
    rank = open_rank(folder, divided=True, update=COMPILED_UPDATE)
    enough = room_of(rank, PassSize(tokens=64), SELECTIVE)
    assert PassRoom([rank.policy], rank.spec, enough).keeps_weights
    assert not PassRoom([rank.policy], rank.spec, enough - 1).keeps_weights


def test_gradients_are_exchanged_once_where_there_is_room_for_all_of_them_too(folder, open_rank):
    rank = open_rank(folder, divided=True, update=COMPILED_UPDATE)
    total = sum(p.numel() for p in rank.policy.parameters())
    enough = room_of(rank, PassSize(tokens=64), Recomputation()) + 4 * total
    rooms = [PassRoom([rank.policy], rank.spec, room) for room in (enough, enough - 1)]
    assert [room.exchanges_once for room in rooms] == [True, False]
    assert all(room.keeps_weights for room in rooms)


def test_ranks_on_cpus_keep_weights_and_gradients_of_small_models(folder, open_rank):
    rank = open_rank(folder, divided=True)
    total = sum(p.numel() for p in rank.policy.parameters())
    blocks = 4 * sum(p.numel() for block in rank.policy.blocks() for p in block.parameters())
    found = []
    for small in (4 * total, 4 * total - 1, blocks - 1):
        room = PassRoom([rank.policy], rank.spec, small=small)
        found.append((room.keeps_weights, room.exchanges_once))
    assert found == [(True, True), (True, False), (False, False)]


def test_the_only_rank_exchanges_no_gradients(folder, open_rank):
    room = open_rank(folder).room
    assert (room.keeps_weights, room.exchanges_once) == (True, False)


def test_a_rank_will_take_twelve_bytes_a_parameter_and_what_a_pass_gathers(folder, open_rank):
    rank = open_rank(folder, divided=True)
    shape, total = rank.policy.shape, sum(p.numel() for p in rank.policy.parameters())
    block = sum(p.numel() for p in rank.policy.model.layers[0].parameters())
    outside = (shape.vocabulary + 1) * shape.hidden
    assert total == shape.layers * block + outside
    settings = spec()
    # Of two blocks the weights, in float32, and of one the gradient; of the others both.
    gathered = 12 * block + 8 * outside
    logits = 18 * shape.vocabulary * 64  # the tokens of a pack
    assert bytes_to_come([rank.policy], settings) == 12 * total + gathered + logits


@pytest.mark.parametrize(("dtype", "width"), [("float32", 0), ("bfloat16", 2)])
def test_the_only_rank_will_take_copies_of_one_model_and_the_first_gradients(
    folder, open_rank, dtype, width
):
    settings = spec(algorithm={"name": "ppo"}, model={"dtype": dtype})
    rank = open_rank(folder, algorithm={"name": "ppo"}, model={"dtype": dtype})
    shape, total = rank.policy.shape, sum(p.numel() for p in rank.policy.parameters())
    outside = (shape.vocabulary + 1) * shape.hidden * (width or 4)
    logits = 18 * shape.vocabulary * 64  # the tokens of a pack
    both = bytes_to_come([rank.policy, rank.critic.decoder], settings)
    assert both == 2 * 12 * total + width * total + outside + logits


@pytest.mark.parametrize(
    ("changes", "bytes_a_parameter"),
    [
        # Weights, gradients and two moments in float32; copies and their gradients in bfloat16.
        ({}, 16 + 4),
        ({"model": {"dtype": "float32", "context": 64}}, 16 + 4),
        ({"algorithm": {"name": "ppo", "kl": {"coefficient": 0.1}}}, 2 * 16 + 6),
        ({"compute": {"ray": "embedded", "sparseHandOver": True}}, 16 + 6),
    ],
)
@pytest.mark.parametrize("recompute", [False, True])
def test_the_only_rank_has_to_hold_copies_and_gradients_of_all_weights(
    changes, bytes_a_parameter, recompute
):
    update = {"microBatchTokens": TOKENS, "gradientCheckpointing": recompute}
    settings = spec(**{"model": {"dtype": "bfloat16", "context": 64}, "update": update} | changes)
    model = Linear(3, 4, bias=False, device="meta")
    model.shape = SHAPE
    padded = PassSize(tokens=TOKENS, padding=pass_memory.MAX_PADDING)
    again = Recomputation(blocks=SHAPE.layers if recompute else 0)
    activations = pass_memory.activation_bytes(settings, SHAPE, padded, again)
    logits = pass_memory.logits_bytes(settings, SHAPE)
    assert whole_bytes(model, settings) == 12 * bytes_a_parameter + activations + logits


def test_what_was_handed_over_is_kept_in_the_models_type(folder, open_rank):
    rank = open_rank(folder, divided=True, model={"dtype": "bfloat16"})
    total = sum(p.numel() for p in rank.policy.parameters())
    sparse = spec(model={"dtype": "bfloat16"}, compute={"ray": "embedded", "sparseHandOver": True})
    more = bytes_to_come([rank.policy], sparse) - bytes_to_come([rank.policy], rank.spec)
    assert more == 2 * total


def test_a_critic_adds_its_state_and_what_is_outside_of_its_blocks(folder, open_rank):
    settings = spec(algorithm={"name": "ppo"})
    rank = open_rank(folder, divided=True, algorithm={"name": "ppo"})
    both = bytes_to_come([rank.policy, rank.critic.decoder], settings)
    shape, total = rank.policy.shape, sum(p.numel() for p in rank.policy.parameters())
    outside = (shape.vocabulary + 1) * shape.hidden
    assert both - bytes_to_come([rank.policy], settings) == 12 * total + 8 * outside
