"""What every worker needs, loaded once by the process that they are forked from (`nursery`)."""

from __future__ import annotations

import importlib
import sys

from agentrl_components.workers.imports import loading

# Python puts the current folder before all others here, and a person's files are not modules.
sys.path[:] = [folder for folder in sys.path if folder]
with loading():
    importlib.import_module("agentrl_components.workers.pool")
