"""What the encoders say of pictures and captions, kept on disk outside the folders of pictures.

Latents are kept as mean and standard deviation, so that each step still draws its own sample. An
entry is named by everything it depends on, so it never goes stale; nothing is kept in memory but
where entries are, for the system keeps files there that are read often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from lorakit import durable
from lorakit.cache import shards, shelves
from lorakit.cache.shards import Part
from lorakit.dataset.views import View
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import digests

SAME_PICTURE = 6
"""So many bytes of a picture's name are from its sha256 alone: they tell other sizes of it."""


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


def picture_name(sha256: str, view: View) -> bytes:
    """The name of a picture's latents: of its bytes, size, crop and whatever else is done to it."""
    whole = hashlib.blake2b(f"{sha256}\0{view!r}".encode(), digest_size=16 - SAME_PICTURE)
    return bytes.fromhex(sha256)[:SAME_PICTURE] + whole.digest()


def text_name(text: str) -> bytes:
    """The name of what the text encoders say of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def sweep(root: Path) -> None:
    """Remove what killed processes were writing, digests of files among it."""
    durable.sweep(root / digests.FOLDER, shelves.ABANDONED_SECONDS)
    shelves.sweep(root)


class Cache:
    """The entries of one encoder, held against being cleared for as long as this process lives.

    Written within `with cache:`, at whose end everything is on the disk and readable.
    """

    def __init__(self, root: Path, kind: shelves.Kind, encoder: str, base: str) -> None:
        self._root, self._kind = root, kind
        self._folder = shelves.place(root, kind, encoder)
        try:
            self._hold = shelves.hold(self._folder)
        except OSError as error:
            raise self._unwritable(error) from error
        self._index = shards.Index(self._folder)
        about = {"kind": kind, "encoder": encoder, "base": base}
        self._writer = shards.Writer(self._folder, about)

    def __contains__(self, name: bytes) -> bool:
        return name in self._index

    def __len__(self) -> int:
        return len(self._index)

    def drop_damaged(self) -> list[str]:
        """Remove files that cannot be read, and say of each why."""
        damaged, self._index.damaged = self._index.damaged, {}
        for path in damaged:
            path.unlink(missing_ok=True)
        return [f"{path.name}: {why}" for path, why in damaged.items()]

    def has(self, name: bytes, key: str) -> bool:
        """Whether an entry is there and has a part of this name."""
        return name in self._index and key in self._index.keys(name)

    def read(self, name: bytes) -> dict[str, Tensor]:
        """The tensors of an entry, fp32, on the CPU."""
        try:
            found = self._index.read(name)
        except OSError as error:
            raise LorakitError(
                f"The cached file {self._index.where(name)} cannot be read: {error}.",
                "Go on with lorakit train --resume: what is missing is made anew.",
                ExitCode.DATA,
            ) from error
        return {
            key: torch.frombuffer(part.data, dtype=torch.float32).view(part.shape)
            for key, part in found.items()
        }

    def put(self, name: bytes, tensors: Mapping[str, Tensor]) -> None:
        """Keep an entry; it is on the disk a few seconds later at the latest."""
        parts = {
            key: Part(tuple(t.shape), t.float().contiguous().numpy().tobytes())
            for key, t in tensors.items()
        }
        try:
            self._writer.add(name, parts)
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            self._writer.flush()
        except OSError as failed:
            if error is None:
                raise self._unwritable(failed) from failed
        self._index.refresh()

    def why_missing(self, names: list[bytes]) -> str:
        """Why pictures that were encoded before are encoded anew; empty where none was."""
        wanted = {name[:SAME_PICTURE] for name in names}
        here = wanted & {name[:SAME_PICTURE] for name in self._index}
        others = wanted - here
        elsewhere: set[bytes] = set()
        for folder in sorted((self._root / self._kind).glob("?" * 16)) if others else ():
            if folder != self._folder:
                elsewhere |= others & {name[:SAME_PICTURE] for name in shards.Index(folder)}
        told = []
        if here:
            told.append(f"{len(here)} were there at another size, crop or colour")
        if elsewhere:
            told.append(f"{len(elsewhere)} by another VAE, device, PyTorch or number of threads")
        return ", ".join(told)

    def close(self) -> None:
        """Let the folder go: it may be cleared from here on."""
        self._index.close()
        self._hold.close()

    def _unwritable(self, error: OSError) -> LorakitError:
        return LorakitError(
            f"The cache cannot be written: {error.strerror or error}, in {self._folder}.",
            "Make room there, or set LORAKIT_CACHE to a folder on another disk.",
            ExitCode.DATA,
        )
