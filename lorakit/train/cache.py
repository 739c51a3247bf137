"""What the encoders say of pictures and captions, kept on disk outside the folders of pictures.

Latents are kept as mean and standard deviation, so that each step still draws its own sample. An
entry is named by everything it depends on; it is complete or absent, and never goes stale.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from lorakit import durable
from lorakit.dataset.buckets import Fit
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import digests

MEMORY_BYTES = 4 * 2**30
"""Entries are kept in memory up to this size; beyond it they are read for each step."""


def encoder_id(digest: str, device: torch.device) -> str:
    """What else the bits of an encoder's answer depend on: the same numbers come only from the same
    library, device and number of threads."""
    if device.type == "cpu":
        capability = torch.backends.cpu.get_cpu_capability()
        where = f"cpu/{torch.get_num_threads()} threads/{capability}"
    elif device.type == "cuda":
        where = f"cuda/{torch.cuda.get_device_name(device)}"
    else:
        where = device.type
    return f"{digest}/{torch.__version__}/{where}"


class Cache:
    """Tensors by what they were made from."""

    def __init__(self, root: Path, encoder: str) -> None:
        self._root = root
        self._encoder = encoder

    def picture(self, sha256: str, fit: Fit) -> Path:
        """Where the latents of a picture are, or will be; `fit` is its size and crop."""
        return self._path("latents", sha256, repr(fit))

    def text(self, caption: str) -> Path:
        """Where what the text encoders say of a caption is, or will be."""
        return self._path("text", caption)

    def _path(self, kind: str, *parts: str) -> Path:
        name = hashlib.sha256("\0".join((kind, self._encoder, *parts)).encode()).hexdigest()
        return self._root / kind / name[:2] / f"{name}.safetensors"


def put(path: Path, tensors: dict[str, Tensor], source: str) -> None:
    """Write an entry. `source` names the picture or caption in errors."""
    if not all(torch.isfinite(t).all() for t in tensors.values()):
        raise LorakitError(
            f"The encoder answers {source} with numbers that are not finite.",
            "Look at it, and remove it if it is damaged; or the base model's VAE is.",
            ExitCode.DATA,
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write(path, save({k: v.contiguous() for k, v in tensors.items()}))
    except OSError as error:
        raise LorakitError(
            f"The cache cannot be written: {error.strerror or error}, in {path.parent}.",
            "Make room there, or set LORAKIT_CACHE to a folder on another disk.",
            ExitCode.DATA,
        ) from error


ABANDONED_SECONDS = 3600
"""Other processes, perhaps on other machines, write entries too: what is younger is left alone."""


def sweep(root: Path) -> None:
    """Remove what killed processes were writing, digests of files among it."""
    for folder in (root / digests.FOLDER, *root.glob("latents/*"), *root.glob("text/*")):
        durable.sweep(folder, ABANDONED_SECONDS)


class Reader:
    """Reads entries, and keeps them in memory as far as they fit."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._room = memory_bytes
        self._kept: dict[Path, dict[str, Tensor]] = {}

    def __call__(self, path: Path) -> dict[str, Tensor]:
        """The tensors of one entry, on the CPU."""
        kept = self._kept.get(path)
        if kept is None:
            try:
                kept = load_file(path)
            except (SafetensorError, OSError) as error:
                raise LorakitError(
                    f"The cached file {path} cannot be read: {error}",
                    "Delete it: it is made anew by the next run.",
                    ExitCode.DATA,
                ) from error
            size = sum(t.nbytes for t in kept.values())
            if size <= self._room:
                self._room -= size
                self._kept[path] = kept
        return kept
