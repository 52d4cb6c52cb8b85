"""A plugin of pytest that runs vLLM's model runner V2 on CPUs: Triton's interpreter computes its
kernels. Of Triton's releases none has a backend for CPUs.

    VLLM_USE_V2_MODEL_RUNNER=1 PYTHONPATH=tests/components/small_models pytest -p triton_on_cpu ...
"""

import os
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

from triton.backends import backends

backends["cpu"] = SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True))
