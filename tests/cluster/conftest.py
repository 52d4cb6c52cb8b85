"""The cluster's modules are scripts beside each other; its tests import them by their names."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
