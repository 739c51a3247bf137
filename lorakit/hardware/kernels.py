"""Which cards a build of PyTorch has kernels for, and AMD's way around where it has none."""

from __future__ import annotations

import re
from collections.abc import Sequence

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
"""Makes ROCm treat every card as of this target."""


def served(architecture: str, known: Sequence[str]) -> bool:
    """Whether a card of this architecture (`sm_89`, `gfx1032`) runs what PyTorch is built for.

    Where either is unknown, nothing speaks against it.
    """
    if not architecture or not known:
        return True
    if architecture.startswith("gfx"):
        major, minor = architecture[:-2], architecture[-2]
        names = {architecture, f"{major}-generic", f"{major}-{minor}-generic"}
        return not names.isdisjoint(map(plain, known))
    found = re.fullmatch(r"sm_(\d+)", architecture)
    return found is None or any(_runs(int(found[1]), name) for name in known)


def left_behind(cuda: str | None, capability: tuple[int, int] | None) -> bool:
    """Whether PyTorch's builds for this CUDA version have nothing for a card of this capability.

    From 12.8 on they leave out what is below 7.0; whether 7.0 itself is in differs among them.
    """
    version = re.match(r"(\d+)\.(\d+)", cuda or "")
    if version is None or capability is None:
        return False
    return (int(version[1]), int(version[2])) >= (12, 8) and capability < (7, 0)


def plain(name: str) -> str:
    """A target without its features: `gfx90a:sramecc+:xnack-` is `gfx90a`."""
    return name.partition(":")[0]


def _runs(card: int, name: str) -> bool:
    """Kernels run on the later cards of a generation, code that is not yet compiled on all later
    ones, and what is made for one card's features (`sm_90a`) on no other."""
    found = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", name)
    if found is None:
        return False
    kind, number, only = found[1], int(found[2]), found[3]
    if only == "a":
        return number == card
    return number <= card and (kind == "compute" or number // 10 == card // 10)


def override(architecture: str, known: Sequence[str] = ()) -> str:
    """The version to try for a target without kernels: that of a target of the same generation.

    Empty where the known ones have none.
    """
    first = f"{architecture[:-1]}0"
    near = [n for n in map(plain, known) if n.startswith("gfx") and _same(n, architecture)]
    if known and not near:
        return ""
    return _version(near[0] if near and first not in near else first)


def fault(value: str, architectures: Sequence[str]) -> str:
    """What is wrong with a set override, in words to go behind it; empty where nothing is."""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", value.strip())
    if not found:
        return "is no version, such as 10.3.0"
    major, minor, step = map(int, found.groups())
    target = f"gfx{major}{minor:x}{step:x}"
    others = [a for a in architectures if a and not _same(target, a)]
    if others:
        return f"makes ROCm use kernels of {target}, another generation than {others[0]}"
    return ""


def _same(one: str, other: str) -> bool:
    """Whether two targets differ in their last digit at most."""
    return one[:-1] == other[:-1]


def _version(architecture: str) -> str:
    digits = architecture.removeprefix("gfx")
    return f"{digits[:-2]}.{int(digits[-2], 16)}.{int(digits[-1], 16)}"
