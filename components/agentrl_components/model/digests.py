"""Digests of a model's folder, by which a run recognises its model."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentrl_components.model.sources import is_model_file

WEIGHTS = ".safetensors"
"""Suffix of files of weights. The others, of configuration and tokenizer, are read as a whole."""
BLOCKS, BLOCK_BYTES = 64, 4096
"""Blocks that are read of a file of weights, evenly spread: enough, since another training run
changes nearly all of them."""


def sample_of(folder: Path) -> str:
    """A digest of a model folder: of its configuration and tokenizer files, and of the names, sizes
    and some blocks of its weights. Other files and folders in it do not count."""
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.iterdir() if one.is_file()):
        if not is_model_file(path.name):
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\n{size}\n".encode())
        with path.open("rb") as file:
            if path.suffix != WEIGHTS or size <= BLOCKS * BLOCK_BYTES:
                digest.update(file.read())
                continue
            for block in range(BLOCKS):
                file.seek((size - BLOCK_BYTES) * block // (BLOCKS - 1))
                digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()[:32]


def digest_of(folder: Path) -> str:
    """A digest of the names and the whole contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder)}\n{content}\n".encode())
    return digest.hexdigest()[:32]
