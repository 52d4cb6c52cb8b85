"""The logits processor of admissible replies, without an engine."""

import pytest
import torch
from needs_vllm import NEEDS_VLLM

pytestmark = NEEDS_VLLM
STOP = 0
MENU = [[5, 6, 7], [5, 6, 8], [9]]


def joined(processor, *replies, actions=MENU, start=0, prompt=(1, 2)):
    """Add a request for each of `replies`, the tokens that it has so far."""
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate

    params = SamplingParams(
        stop_token_ids=[STOP],
        extra_args={"admissible": actions, "admissible_start": start},
    )
    added = [(row, params, list(prompt), reply) for row, reply in enumerate(replies)]
    processor.update_state(BatchUpdate(batch_size=len(added), removed=[], added=added, moved=[]))


def allowed(processor, rows, vocabulary=12):
    """Token ids that are not masked, of each row."""
    logits = processor.apply(torch.zeros(rows, vocabulary))
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


@pytest.fixture
def processor():
    from agentrl_components.engines.vllm_engine.admissible_v1 import AdmissibleReplies

    return AdmissibleReplies(None, torch.device("cpu"), False)


def test_only_tokens_that_the_trie_allows_are_left(processor):
    joined(processor, [], [5], [5, 6])
    assert allowed(processor, 3) == [[5, 9], [6], [7, 8]]


def test_a_reply_whose_rest_is_forced_is_stopped(processor):
    joined(processor, [9], [5, 6, 7])
    assert allowed(processor, 2) == [[STOP], [STOP]]


def test_the_trie_is_walked_as_tokens_arrive(processor):
    reply = []
    joined(processor, reply)
    assert allowed(processor, 1) == [[5, 9]]
    reply += [5, 6]
    assert allowed(processor, 1) == [[7, 8]]


def test_forced_tokens_at_the_end_of_the_prompt_belong_to_the_reply(processor):
    joined(processor, [], actions=[[5, 6], [5, 7]], start=1, prompt=(1, 5))
    assert allowed(processor, 1) == [[6, 7]]


def test_other_requests_are_not_restricted(processor):
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate

    joined(processor, [])
    other = (1, SamplingParams(), [1], [])
    processor.update_state(BatchUpdate(batch_size=2, removed=[], added=[other], moved=[]))
    assert allowed(processor, 2, 10) == [[5, 9], list(range(10))]
