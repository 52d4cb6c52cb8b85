import shutil
from importlib.util import find_spec

import pytest


@pytest.fixture
def java() -> None:
    """For tests that play: skips them where ScienceWorld or Java is not installed."""
    if find_spec("scienceworld") is None:
        pytest.skip("needs scienceworld: pip install '.[science]'")
    if shutil.which("java") is None:
        pytest.skip("needs Java 17: apt-get install openjdk-17-jre-headless")
