"""Which PyTorch is installed, read from its files: importing it takes seconds and may crash."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from lorakit.hardware.facts import TorchBuild

_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_LINE = re.compile(r"^(cuda|hip|xpu)\b[^=]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


def installed() -> TorchBuild | None:
    """The installed build, or None where there is no PyTorch."""
    try:
        found = importlib.metadata.distribution("torch")
        text = Path(str(found.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    except importlib.metadata.PackageNotFoundError:
        return None
    except OSError:
        text = ""
    return build(found.version, text)


def build(version: str, text: str) -> TorchBuild:
    """The build of this version whose torch/version.py has this text."""
    said = dict(_LINE.findall(text))
    # The file has the build, `+cu130`, which a package index leaves out of the metadata.
    whole = _VERSION.search(text)
    return TorchBuild(version=whole[1] if whole else version, **said)
