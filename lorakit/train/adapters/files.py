"""Adapter files: safetensors with sorted headers, in kohya's layout and in that of diffusers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from lorakit import durable
from lorakit.families.families import Family

FIRST_MATRIX = (".lora_down.weight", ".lora_A.weight")
"""What the name of a module's first matrix ends with, in either layout."""

Matrices = Mapping[str, tuple[Tensor, Tensor]]
"""(down, up) by module name, fp32, on the CPU."""


def kohya(matrices: Matrices, family: Family, alpha: float) -> dict[str, Tensor]:
    """Named tensors as A1111, Forge and ComfyUI read them: one `alpha` a module."""
    made: dict[str, Tensor] = {}
    for module, (down, up) in matrices.items():
        name = family.kohya_name(module)
        made[f"{name}.lora_down.weight"] = down
        made[f"{name}.lora_up.weight"] = up
        made[f"{name}.alpha"] = torch.tensor(alpha)
    return made


def diffusers(matrices: Matrices) -> dict[str, Tensor]:
    """Named tensors as diffusers writes them."""
    made: dict[str, Tensor] = {}
    for module, (down, up) in matrices.items():
        made[f"unet.{module}.lora_A.weight"] = down
        made[f"unet.{module}.lora_B.weight"] = up
    return made


HASHES = {
    "modelspec.hash_sha256": "0x" + "0" * 64,
    "sshs_model_hash": "0" * 64,
    "sshs_legacy_hash": "0" * 8,
}
"""Notes that only the finished file can fill in, as placeholders of the same length."""


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> int:
    """Write a safetensors file, complete or not at all, and return its size in bytes.

    The library orders the header's notes anew in each process; here they are sorted, so that equal
    content gives equal bytes. Where `HASHES` are among the notes they get their values.
    """
    whole = memoryview(safetensors.torch.save(dict(tensors), metadata=dict(metadata)))
    start = 8 + int.from_bytes(whole[:8], "little")
    header, data = json.loads(bytes(whole[8:start])), whole[start:]
    notes = dict(sorted(header["__metadata__"].items()))
    head = _head(header, notes)
    if HASHES.keys() <= notes.keys():
        head = _head(header, notes | _hashes(head, data))
    with durable.replacing(path) as file:
        file.write(head)
        file.write(data)
    return path.stat().st_size


def _head(header: Mapping[str, Any], notes: Mapping[str, str]) -> bytes:
    """The bytes before the tensors: the header's length and the header."""
    whole = {**header, "__metadata__": notes}
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _hashes(head: bytes, data: memoryview) -> dict[str, str]:
    """The file's hashes as its readers compute them.

    The model's is over the bytes behind the header, so that other notes do not change it. The
    legacy one is over 64 KiB from 1 MiB on, wherever that lies; shorter files all have the same.
    """
    model = hashlib.sha256(data).hexdigest()
    first, last = 2**20, 2**20 + 2**16
    window = head[first:last] + data[max(0, first - len(head)) : max(0, last - len(head))]
    return {
        "modelspec.hash_sha256": f"0x{model}",
        "sshs_model_hash": model,
        "sshs_legacy_hash": hashlib.sha256(window).hexdigest()[:8],
    }


def modules(path: Path) -> int:
    """How many modules a file of either layout is about."""
    with safetensors.safe_open(path, framework="pt") as file:
        return sum(key.endswith(FIRST_MATRIX) for key in file.keys())  # noqa: SIM118


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The result digest: sha256 over sorted (key, dtype, shape, bytes)."""
    whole = hashlib.sha256()
    for key in sorted(tensors):
        value = tensors[key].detach().cpu().contiguous()
        whole.update(f"{key}\0{value.dtype}\0{list(value.shape)}\0".encode())
        whole.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
