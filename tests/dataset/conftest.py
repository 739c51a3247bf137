from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def tiny_tokenizer() -> Callable[[Path], Path]:
    """Makes a base folder whose CLIP tokenizer knows single letters: a token for each letter."""

    def make(folder: Path) -> Path:
        letters = [chr(c) for c in range(33, 127)]
        entries = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
        (folder / "tokenizer").mkdir(parents=True)
        (folder / "tokenizer" / "vocab.json").write_text(
            json.dumps({entry: n for n, entry in enumerate(entries)})
        )
        (folder / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
        return folder

    return make
