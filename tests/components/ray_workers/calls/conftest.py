"""Ray for tests of calls."""

import pytest
from ray_bench import connected


@pytest.fixture(scope="module")
def ray():
    with connected() as ray:
        yield ray
