"""The logits processor of admissible replies for model runner V2, without an engine."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from needs_vllm import NEEDS_VLLM
from torch.utils._python_dispatch import TorchDispatchMode

from agentrl_components.engines.action_trie import chooses, trie_of

pytestmark = NEEDS_VLLM
STOP = 0
MENU = [[5, 6, 7], [5, 6, 8], [9]]
PROMPT = [1, 2]
SLOTS, CONTEXT, VOCABULARY = 4, 10, 12
ALL = list(range(VOCABULARY))


class Batch:
    """The processor, and the requests as vLLM keeps them: by slot, on the device."""

    def __init__(self):
        from agentrl_components.engines.vllm_engine.admissible_v2 import AdmissibleSlots

        self.requests = SimpleNamespace(
            max_num_reqs=SLOTS,
            device=torch.device("cpu"),
            all_token_ids=SimpleNamespace(gpu=torch.zeros(SLOTS, CONTEXT, dtype=torch.int32)),
            prompt_len=SimpleNamespace(np=np.zeros(SLOTS, dtype=np.int32)),
        )
        self.lengths = [0] * SLOTS
        self.processor = AdmissibleSlots(None, self.requests)

    def join(self, slot, actions=MENU, *, prompt=PROMPT, reply=(), start=0):
        """A request gets a slot. `reply` has tokens if it was preempted. Returns whether it is
        restricted."""
        from vllm import SamplingParams

        given = {"admissible": actions, "admissible_start": start} if actions else None
        self.requests.prompt_len.np[slot] = len(prompt)
        self.lengths[slot] = 0
        self.append(slot, *prompt, *reply)
        return self.processor.add_request(
            slot, SamplingParams(stop_token_ids=[STOP], extra_args=given)
        )

    def append(self, slot, *tokens):
        """vLLM samples tokens for the request in a slot."""
        for token in tokens:
            self.requests.all_token_ids.gpu[slot, self.lengths[slot]] = token
            self.lengths[slot] += 1

    def allowed(self, *slots):
        """Token ids that are not masked for the requests in these slots, in a step."""
        self.processor.apply_staged_writes()
        rows = torch.tensor(slots, dtype=torch.int32)
        step = SimpleNamespace(
            expanded_idx_mapping=rows,
            idx_mapping_np=np.array(slots),
            pos=torch.tensor([self.lengths[slot] - 1 for slot in slots]),
        )
        logits = torch.arange(len(slots) * VOCABULARY, dtype=torch.float32)
        logits = logits.reshape(len(slots), VOCABULARY)
        masked = self.processor.apply(logits.clone(), step)
        kept = masked.isfinite()
        assert masked[kept].tolist() == logits[kept].tolist()
        return [row.nonzero().flatten().tolist() for row in kept]


def test_only_tokens_that_the_replies_allow_are_left():
    batch = Batch()
    assert batch.join(0)
    assert batch.allowed(0) == [[5, 9]]
    batch.append(0, 5)
    assert batch.allowed(0) == [[6]]
    batch.append(0, 6)
    assert batch.allowed(0) == [[7, 8]]


def test_a_reply_whose_rest_is_forced_is_stopped():
    batch = Batch()
    batch.join(0)
    batch.join(1)
    batch.append(0, 9)
    batch.append(1, 5, 6, 7)
    assert batch.allowed(0, 1) == [[STOP], [STOP]]


def test_the_stop_token_is_a_choice_where_a_reply_begins_another():
    batch = Batch()
    batch.join(0, [[5], [5, 6], [5, 6]])
    assert batch.allowed(0) == [[5]]
    batch.append(0, 5)
    assert batch.allowed(0) == [[STOP, 6]]


def test_forced_tokens_at_the_end_of_the_prompt_belong_to_the_reply():
    batch = Batch()
    batch.join(0, [[5, 6], [5, 7]], prompt=[1, 5], start=1)
    assert batch.allowed(0) == [[6, 7]]


def test_rows_of_a_step_are_in_any_order_and_other_requests_are_not_restricted():
    batch = Batch()
    batch.join(2)
    assert not batch.join(1, None)
    batch.join(0, [[3, 4], [3, 5]], reply=[3])
    assert batch.allowed(1, 0, 2) == [ALL, [4, 5], [5, 9]]
    assert batch.allowed(1) == [ALL]


def test_a_request_that_was_preempted_goes_on_in_another_slot():
    batch = Batch()
    batch.join(0)
    batch.append(0, 5, 6)
    batch.join(3, reply=[5, 6])
    batch.join(0, [[2], [4]])
    assert batch.allowed(3, 0) == [[7, 8], [2, 4]]


def test_a_slot_is_used_again_with_another_menu_or_with_none():
    batch = Batch()
    batch.join(0, [[4, 4, 4, 4, 4], [3], [2], [6]])
    assert batch.allowed(0) == [[2, 3, 4, 6]]
    batch.join(0)
    assert batch.allowed(0) == [[5, 9]]
    batch.join(0, None)
    batch.join(1)
    assert batch.allowed(0, 1) == [ALL, [5, 9]]


def test_a_reply_may_end_at_the_end_of_the_context():
    batch = Batch()
    batch.join(0, [[5, 6, 7], [5, 6, 8]], prompt=[1] * (CONTEXT - 2))
    batch.append(0, 5)
    assert batch.allowed(0) == [[6]]
    batch.append(0, 6)
    assert batch.allowed(0) == [[7, 8]]


def test_a_step_that_was_begun_for_a_reply_that_has_ended_has_the_stop_token():
    batch = Batch()
    batch.join(0)
    batch.append(0, 9, STOP)
    assert batch.allowed(0) == [[STOP]]


class WeightPool(TorchDispatchMode):
    """Stands for the memory in which vLLM loads a model, and whose contents are lost in sleep."""

    def __init__(self):
        super().__init__()
        self.taken = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.taken.append(func(*args, **(kwargs or {})))
        return self.taken[-1]

    def sleep(self):
        for tensor in self.taken:
            tensor.fill_(1)


def test_what_vllm_loses_while_it_sleeps_is_not_needed():
    from agentrl_components.engines.vllm_engine.admissible_v2 import AdmissibleSlots

    batch, pool = Batch(), WeightPool()
    with pool:
        batch.processor = AdmissibleSlots(None, batch.requests)
    pool.sleep()
    batch.join(1, None)
    batch.join(0)
    assert batch.allowed(0, 1) == [[5, 9], ALL]


def test_the_host_does_not_wait_for_the_device_when_requests_join():
    """In a process of its own: vLLM's worker for CPUs replaces how vLLM copies to a device in the
    process that imports it."""
    command = [sys.executable, str(Path(__file__).with_name("copies_of_joins.py"))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "[false, false]\n"), ended.stderr


@given(st.data())
def test_the_tokens_that_are_left_are_those_of_the_trie(data):
    token = st.integers(1, 3)
    menu = data.draw(st.lists(st.lists(token, min_size=1, max_size=4), min_size=1, max_size=6))
    trie, batch = trie_of(tuple(map(tuple, menu)), STOP), Batch()
    batch.join(0, menu)
    node = trie.root
    while node:
        expected = list(trie.allowed(node)) if chooses(node) else [STOP]
        assert batch.allowed(0) == [expected]
        sampled = data.draw(st.sampled_from(expected))
        batch.append(0, sampled)
        node = node[sampled] if chooses(node) else {}
