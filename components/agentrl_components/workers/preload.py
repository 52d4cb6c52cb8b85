"""Imports what every worker needs. Loaded once by the process that workers are forked from."""

from __future__ import annotations

import importlib
import sys

from agentrl_components.workers.imports import collection_disabled

# Python puts the current directory first here, and the user's files are not modules of ours.
sys.path[:] = [folder for folder in sys.path if folder]
with collection_disabled():
    importlib.import_module("agentrl_components.workers.pool")
