"""The header of a .ckpt: names and shapes of pickled weights. Nothing in the pickle is run.

Such a file is a zip of one pickle and of the bytes of each tensor. The pickle is read by a machine
that knows dicts and tensors; whatever else it asks for becomes an object that does nothing.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorakit.families.header import Header, Stored

MAX_BYTES = 100_000_000
"""No pickle of names is larger."""

_DTYPES = {"HalfStorage": "F16", "BFloat16Storage": "BF16", "FloatStorage": "F32",
           "DoubleStorage": "F64", "LongStorage": "I64", "IntStorage": "I32"}  # fmt: skip


def read(file: Path) -> Header:
    """Names, dtypes and shapes; where the tensors lie is not said.

    Raises ValueError in words that go on behind the file's name, OSError where it cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            inner = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            if archive.getinfo(inner).file_size > MAX_BYTES:
                raise ValueError("holds a pickle that is too large for names of weights")
            text = archive.read(inner)
        told = _Reader(io.BytesIO(text)).load()
    except (zipfile.BadZipFile, StopIteration):
        raise ValueError(
            "is a checkpoint of before PyTorch 1.6, or damaged: no zip with a data.pkl in it"
        ) from None
    except (ValueError, OSError):
        raise
    except Exception as error:  # a pickle may be wrong in any way
        raise ValueError(f"holds a pickle that cannot be read ({type(error).__name__})") from None
    inside = told.get("state_dict", told) if isinstance(told, Mapping) else {}
    tensors = {
        str(name): tensor for name, tensor in dict(inside).items() if isinstance(tensor, Stored)
    }
    return Header(tensors=tensors, promised_bytes=file.stat().st_size)


class _Nothing:
    """Stands for any object that is no weight."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any) -> _Nothing:
        return self

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Of a list of its kind."""

    def extend(self, values: Any) -> None:
        """Of a list of its kind."""


def _tensor(storage: Any, offset: int, shape: Any, *rest: Any) -> Any:
    kind = storage if isinstance(storage, str) else ""
    return Stored(_DTYPES.get(kind, kind or "?"), tuple(map(int, shape)))


def _parameter(data: Any, *rest: Any) -> Any:
    return data


_KNOWN: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Nothing is imported, whatever the pickle names."""
        if module.startswith("torch") and name.endswith("Storage"):
            return name
        return _KNOWN.get((module, name), _Nothing)

    def persistent_load(self, pid: Any) -> Any:
        """A storage is known by its dtype alone."""
        return pid[1] if isinstance(pid, tuple) and len(pid) > 1 else ""
