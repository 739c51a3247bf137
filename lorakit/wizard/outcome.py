"""How the wizard ends: what is to be done once its screen is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import absolute
from lorakit.bundle.write import write
from lorakit.errors import LorakitError
from lorakit.planner.estimate import Estimate
from lorakit.wizard import draft
from lorakit.wizard.paths import tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the person chose in the end."""

    what: Literal["left", "kept", "saved", "train", "detach"]
    """left: nothing was answered; kept: the answers are a draft; saved: `path` is a bundle; train
    and detach: `bundle` is to be trained, followed here or not."""
    bundle: Bundle | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why recommended values are what they are, by dotted key."""
    folder: Path = Path()
    """What relative paths in `bundle` count from."""
    path: Path | None = None
    estimate: Estimate | None = None
    """What the training is predicted to take."""


def file_for(text: str, folder: Path) -> Path:
    """The file that a typed name means: below `folder`, and `.toml` where it has no ending."""
    path = folder / Path(tidy(text, folder)).expanduser()
    if not text.strip() or path.is_dir():
        raise LorakitError("That is no name of a file.", "Type one, such as my-dog.toml.")
    return path if path.suffix else path.with_name(f"{path.name}.toml")


def save(bundle: Bundle, reasons: Mapping[str, str], path: Path, folder: Path) -> Outcome:
    """Write a bundle and forget the draft. Raises LorakitError.

    Its relative paths count from `folder`; in a file elsewhere they become absolute.
    """
    if not path.parent.is_dir():
        raise LorakitError(f"The folder {path.parent} does not exist.", "Choose another place.")
    if path.parent.resolve() != folder.resolve():
        bundle = absolute(bundle, folder)
    write(path, bundle, reasons)
    draft.remove()
    return Outcome(what="saved", bundle=bundle, reasons=reasons, folder=folder, path=path)
