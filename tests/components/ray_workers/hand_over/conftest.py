"""Ray for tests of a hand-over without a model."""

import pytest
from ray_bench import connected


@pytest.fixture(scope="module")
def ray():
    with connected(trainers=1, samplers=1) as ray:
        yield ray
