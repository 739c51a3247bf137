"""`lorakit demo`: from nothing to a LoRA and its pictures, with what lorakit ships."""

from __future__ import annotations

import shutil
from pathlib import Path

import lorakit
from lorakit.cli import streams
from lorakit.cli.train import train
from lorakit.errors import LorakitError

BUNDLE = "robots.toml"
PICTURES = "robots"


def demo(folder: Path, runs: Path | None) -> int:
    """Put the example's bundle and pictures in a folder and train them."""
    bundle = prepare(folder)
    streams.err(f"bundle {bundle}")
    return train(bundle, [], runs, detach=False)


def prepare(folder: Path) -> Path:
    """The example's bundle in a folder of its own; files that are there stay as they are."""
    source = examples()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / PICTURES).exists():
            shutil.copytree(source / PICTURES, folder / PICTURES)
        if not (folder / BUNDLE).exists():
            shutil.copyfile(source / BUNDLE, folder / BUNDLE)
    except OSError as error:
        raise LorakitError(
            f"The demo cannot be put in {folder}: {error.strerror or error}.",
            "Choose another place: lorakit demo --dir DIR",
        ) from error
    return (folder / BUNDLE).absolute()


def examples() -> Path:
    """Where the examples lie: in the installed package, or beside it in a checkout."""
    package = Path(lorakit.__file__).resolve().parent
    for folder in (package / "_examples", package.parent / "examples"):
        if (folder / BUNDLE).is_file() and (folder / PICTURES).is_dir():
            return folder
    raise LorakitError(
        "The pictures of the demo are missing from this installation.", "Install lorakit again."
    )
