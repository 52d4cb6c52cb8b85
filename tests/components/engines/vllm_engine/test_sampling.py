"""What vLLM is asked for."""

from needs_vllm import NEEDS_VLLM

from agentrl_components.engines.engine import Sampling
from agentrl_components.engines.vllm_engine.sampling import StopTokens, params_of

pytestmark = NEEDS_VLLM


def test_vllm_finds_a_stop_token_by_its_hash():
    stop = (7, 3, *range(100, 2200))
    params = params_of(Sampling(temperature=1.0, top_p=1.0, max_tokens=4, stop=stop), 1, 4).clone()
    assert isinstance(params.stop_token_ids, StopTokens)
    assert list(params.stop_token_ids) == list(stop)  # the first one is the one that is forced
    assert 3 in params.stop_token_ids
    assert 4 not in params.stop_token_ids
