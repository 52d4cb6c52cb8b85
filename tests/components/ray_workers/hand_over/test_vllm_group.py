"""What engines get to join a process group, beside what vLLM would give them."""

from needs_vllm import NEEDS_VLLM

from agentrl_components.ray_workers.hand_over.nccl_client import PACKED, SamplersClient, meeting

pytestmark = NEEDS_VLLM


class Sampler:
    """Stands for an actor, and keeps what it is given to join a group."""

    def __init__(self):
        self.join_nccl, self.group = self, None

    def remote(self, group):
        self.group = group


def test_engines_are_given_what_vllms_sender_would_give_them():
    from vllm.distributed.weight_transfer.nccl_common import worker_init_payload
    from vllm.distributed.weight_transfer.nccl_engine import (
        NCCLTrainerInitInfo,
        NCCLWeightTransferInitInfo,
    )

    sampler = Sampler()
    client = SamplersClient([sampler], tensor_parallel=2)
    client.join("10.0.0.7:1234")
    assert sampler.group == worker_init_payload(NCCLWeightTransferInitInfo(**sampler.group))
    sender = NCCLTrainerInitInfo(
        rank=0, world_size=client.members, **meeting("10.0.0.7:1234"), **PACKED
    )
    for name in ("master_address", "master_port", "world_size", *PACKED):
        assert getattr(sender, name) == sampler.group[name]
