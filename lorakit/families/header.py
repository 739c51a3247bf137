"""The header of a safetensors file: what its tensors are called, and how they lie. No weights are
read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_BYTES = 100_000_000
"""The format's own limit of a header."""


_BITS = {"F64": 64, "I64": 64, "F32": 32, "I32": 32, "F16": 16, "BF16": 16, "I16": 16}


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor in a file."""

    dtype: str
    """As the format writes it, such as F16."""
    shape: tuple[int, ...]
    start: int = 0
    """Its first byte, counted from the beginning of the file."""
    end: int = 0
    """The byte behind its last one."""

    @property
    def bytes(self) -> int:
        """Its size; what is not named here has a byte a number."""
        return math.prod(self.shape) * _BITS.get(self.dtype, 8) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says of its tensors."""

    tensors: Mapping[str, Stored]
    metadata: Mapping[str, str] = field(default_factory=dict)
    promised_bytes: int = 0
    """Size of the whole file, if it is complete."""

    @property
    def offsets(self) -> bool:
        """Whether it says where each tensor lies, as safetensors does and pickles do not."""
        return any(tensor.end for tensor in self.tensors.values())

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one tensor; empty where there is none."""
        found = self.tensors.get(name)
        return found.shape if found else ()


def read(file: Path) -> Header:
    """The header of a file.

    Raises ValueError for what is no safetensors file, and OSError where it cannot be read.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        text = opened.read(length) if length <= MAX_BYTES else b""
    try:
        told = json.loads(text)
        metadata = told.pop("__metadata__", {})
        begin = 8 + length
        tensors = {name: _stored(facts, begin) for name, facts in told.items()}
        kept = {str(k): str(v) for k, v in metadata.items()}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is no safetensors file") from error
    end = max((tensor.end for tensor in tensors.values()), default=begin)
    return Header(tensors=tensors, metadata=kept, promised_bytes=end)


def _stored(facts: Mapping[str, Any], begin: int) -> Stored:
    start, end = facts["data_offsets"]
    shape = tuple(map(int, facts["shape"]))
    return Stored(str(facts["dtype"]), shape, begin + int(start), begin + int(end))


def shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor by name; raises as `read` does."""
    return {name: tensor.shape for name, tensor in read(file).tensors.items()}
