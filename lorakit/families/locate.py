"""Where a base model lies: shipped, a path, or in the Hub's cache."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from lorakit.bundle.models import PICO, Base
from lorakit.errors import LorakitError
from lorakit.families import hub_cache
from lorakit.families.families import FAMILIES
from lorakit.families.pipelines import family_of
from lorakit.families.shipped import ASSETS

HUB_ID = re.compile(
    r"^(?!.*\.(safetensors|ckpt)$)[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$", re.IGNORECASE
)
"""What may be one; a file in a folder is none, whether it is there or not."""


def locate(base: Base, root: Path) -> Path | None:
    """The folder or file of a base: shipped, given by path (relative to `root`), or in the Hub's
    cache.

    None: a Hub id that has to be downloaded first. Raises LorakitError for anything else.
    """
    if base.model == PICO:
        return ASSETS / "pico"
    given = Path(os.path.expanduser(base.model))  # leaves a ~name that nobody has as it is
    place = given if given.is_absolute() else root / given
    # Not Path.is_dir, which raises where a folder above may not be entered.
    if os.path.isdir(place) or os.path.isfile(place):
        return place
    if HUB_ID.match(base.model):
        with contextlib.suppress(ValueError):  # the Hub's own rules for names are stricter
            return _cached(base)
    raise LorakitError(
        f"The base model {base.model} is no file or folder here, and no Hub id.",
        f"Looked for {place}. A Hub id has the form owner/name; pico is shipped with lorakit.",
    )


def _cached(base: Base) -> Path | None:
    """The folder of a Hub id in the Hub's cache, if all that training needs is there.

    What it needs follows from the folder itself, whatever the bundle says. Raises ValueError for
    what cannot be a Hub id.
    """
    folder = hub_cache.snapshot(base.model, base.revision or "main")
    if folder is None:
        return None
    family = FAMILIES[family_of(folder) or base.family]
    return None if hub_cache.missing(folder, family) else folder


def missing(base: Base) -> tuple[str, ...]:
    """The files of a Hub id that training needs and the Hub's cache lacks, as far as can be told
    from here; empty for what cannot be a Hub id."""
    try:
        folder = hub_cache.snapshot(base.model, base.revision or "main")
    except ValueError:
        return ()
    family = family_of(folder) if folder else None
    return hub_cache.missing(folder, FAMILIES[family or base.family])


def revision(model: str, folder: Path | None) -> str:
    """The commit of a Hub id that its folder in the Hub's cache is of; empty for other bases."""
    from_hub = folder is not None and folder.parent.name == "snapshots" and HUB_ID.match(model)
    return folder.name if folder is not None and from_hub else ""
