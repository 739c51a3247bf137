"""The header of a safetensors file: names and shapes of its tensors. No weights are read."""

from __future__ import annotations

import json
from pathlib import Path

MAX_BYTES = 100_000_000
"""The format's own limit of a header."""


def shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor by name.

    Raises ValueError for what is no safetensors file, and OSError where it cannot be read.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        text = opened.read(length) if length <= MAX_BYTES else b""
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        return {name: tuple(map(int, facts["shape"])) for name, facts in header.items()}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is no safetensors file") from error
