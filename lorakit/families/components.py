"""The parts of a base, which lies in a diffusers folder or in one file: their configurations, and
which files hold the weights that are loaded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lorakit.errors import LorakitError
from lorakit.families import single_file
from lorakit.families.families import Family

WEIGHTS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
    "text_encoder_2": "model",
}
"""File stem of the weights in each folder of a pipeline that has any."""


def weighty(family: Family) -> list[str]:
    """Those of a family's parts that have weights."""
    return [part for part in family.parts if part in WEIGHTS]


def config(base: Path, part: str) -> dict[str, Any]:
    """The configuration of one part of a base, without the names that libraries put in.

    Raises OSError or ValueError for a folder's file that cannot be read, LorakitError for a base
    in one file that is none.
    """
    if os.path.isfile(base):
        return dict(single_file.opened(base).configs[part])
    name = "scheduler_config.json" if part == "scheduler" else "config.json"
    found: dict[str, Any] = json.loads((base / part / name).read_text(encoding="utf-8"))
    return found


def index(base: Path) -> dict[str, Any]:
    """What a diffusers folder says of its whole pipeline; a file says nothing."""
    if os.path.isfile(base):
        return {}
    found: dict[str, Any] = json.loads((base / "model_index.json").read_text(encoding="utf-8"))
    return found


def weight_bytes(base: Path, part: str) -> int:
    """Size of the weights of one part. Raises LorakitError where there are none."""
    if os.path.isfile(base):
        return single_file.opened(base).weight_bytes(part)
    return sum(weight_files(base, part).values())


def weight_files(folder: Path, part: str) -> dict[Path, int]:
    """The safetensors files of one part of a folder, with sizes: the plain ones, else the fp16
    variant.

    Raises LorakitError where there are none, or not all of them.
    """
    found = weights_of(folder, part)
    if found:
        return found
    there = [f.name for f in _files(folder / part) if not f.name.endswith(".json")]
    incomplete = [name for name in there if _SHARD.search(name)]
    if incomplete:
        count = int(_SHARD.search(incomplete[0])[2])  # type: ignore[index]
        raise LorakitError(
            f"The base model in {folder} has {len(incomplete)} of {count} files in {part}.",
            "Download the others too.",
        )
    beside = f" There {'is' if len(there) == 1 else 'are'} {', '.join(there)}." if there else ""
    raise LorakitError(
        f"The base model in {folder} has no weights in {part}.{beside}",
        f"Expected {part}/{WEIGHTS[part]}.safetensors. Pickled weights (.bin, .ckpt) are not read.",
    )


_SHARD = re.compile(r"-(\d+)-of-(\d+)[.]")


def weights_of(folder: Path, part: str) -> dict[Path, int]:
    """The safetensors files of one part of a folder, with sizes; empty where there are none.

    In one file, in several that are all there, or in half precision, in this order.
    """
    return next(_choices(folder, part), {})


def _choices(folder: Path, part: str) -> Iterator[dict[Path, int]]:
    """Every complete set of weights of one part, the one to take first."""
    for names in choices(part, [f.name for f in _files(folder / part)]):
        yield {folder / part / name: (folder / part / name).stat().st_size for name in names}


def choices(part: str, names: Iterable[str]) -> Iterator[list[str]]:
    """Every complete set of weights of one part among the names of its files, the one to take
    first."""
    stem, there = re.escape(WEIGHTS[part]), sorted(names)
    shard = r"-\d+-of-\d+"
    for pattern in ("", shard, r"\.fp16", rf"\.fp16{shard}", rf"{shard}\.fp16"):
        found = [name for name in there if re.fullmatch(rf"{stem}{pattern}\.safetensors", name)]
        told = [m for m in map(_SHARD.search, found) if m]
        if found and all(int(m[2]) == len(found) for m in told):
            yield found


def notes(folder: Path, family: Family) -> tuple[str, ...]:
    """Which weights are taken, for each part of a folder where it is no matter of course."""
    said = []
    for part in weighty(family):
        taken, *others = [[f.name for f in found] for found in _choices(folder, part)] or [[]]
        if others:
            beside = ", ".join(found[0] for found in others)
            said.append(f"{part}: {taken[0]} is taken, and not {beside}")
        elif taken and ".fp16" in taken[0]:
            said.append(f"{part}: only half precision is there, {taken[0]}")
    return tuple(said)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(f for f in folder.iterdir() if f.is_file())
    except OSError:
        return []
