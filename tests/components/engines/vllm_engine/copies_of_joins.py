"""A program in which two restricted requests join vLLM's batch. It prints, as JSON and of each copy
from the host to the device, whether the host waits for it."""

import json
from types import SimpleNamespace

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from vllm import SamplingParams

from agentrl_components.engines.vllm_engine.admissible_v2 import AdmissibleSlots


class Copies(TorchFunctionMode):
    """Keeps of each copy to a device whether the host waits for it."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        named = kwargs or {}
        if func is torch.Tensor.to and (len(args) > 1 or named.get("device") is not None):
            self.waits.append(not named.get("non_blocking", False))
        return func(*args, **named)


prompt_len = SimpleNamespace(np=np.ones(4, dtype=np.int32))
slots = AdmissibleSlots(
    None, SimpleNamespace(max_num_reqs=4, device=torch.device("meta"), prompt_len=prompt_len)
)
menu = {"admissible": [[5, 6, 7], [9]], "admissible_start": 0}
for slot in (0, 2):
    slots.add_request(slot, SamplingParams(stop_token_ids=[0], extra_args=menu))
with Copies() as copies:
    slots.apply_staged_writes()
print(json.dumps(copies.waits))
