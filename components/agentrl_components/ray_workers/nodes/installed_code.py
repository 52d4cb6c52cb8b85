"""The AgentRL that is installed on a machine.

Ray pickles the classes of actors by their names, so that an actor runs the code of its own machine.
Python restores dataclasses with slots from a list of values, without the names of the fields: in
another version of a class values would get into the wrong fields without an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from socket import gethostname

import agentrl_components
import agentrl_envs
from agentrl_components.errors import SpecError

PACKAGES = {package.__name__: package for package in (agentrl_components, agentrl_envs)}
"""Packages whose objects the driver and its actors exchange."""


@cache
def installed_code() -> str:
    """Digest of the code that this process runs. Read once: later changes are not in use."""
    folders = {name: Path(package.__path__[0]) for name, package in PACKAGES.items()}
    return digest_of_code(folders)


def digest_of_code(folders: Mapping[str, Path]) -> str:
    """Digest of the modules in the folders of packages, by the package's name: paths and contents.
    It is the same for a checkout and for what was installed from it: compiled files, data and files
    that cannot be imported, such as those of editors, are left out."""
    digest = hashlib.sha256()
    for name, folder in sorted(folders.items()):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{'.'.join((name, *parts))} {content}\n".encode())
    return digest.hexdigest()[:16]


def check_code(drivers: str) -> None:
    """Raise `SpecError` if the driver, whose `installed_code` is given, runs other code than this
    process."""
    if drivers != installed_code():
        raise SpecError(
            [
                f"spec.compute.ray: {gethostname()} has another AgentRL than the driver's machine; "
                "install the same commit (with containers, the same image digest) on all machines "
                "of the cluster, and start the run again"
            ]
        )
