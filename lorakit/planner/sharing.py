"""Makes presets to share: out of a bundle without what is personal in it, and as whole files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace as copy_with
from pathlib import Path

from lorakit.bundle.document import document
from lorakit.bundle.models import PICO, SCHEMA, Bundle
from lorakit.bundle.write import replace, tables
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.locate import HUB_ID
from lorakit.planner.presets import Preset, parse, shipped, user_folder


def of_bundle(
    name: str, bundle: Bundle, title: str, description: str = "", reasons: Mapping[str, str] = {}
) -> Preset:
    """A bundle's settings as a preset to share. Raises BundleError for a name that is none.

    What is personal stays out: its name, pictures, triggers and lock, a base that is a folder on
    this machine, prompts that name the subject, and reasons that hold any of these or a path.
    """
    settings = {k: v for k, v in tables(bundle).items() if k not in ("schema", "name", "lock")}
    settings["dataset"].pop("sources")
    shared = ["family"]
    if bundle.base.model == PICO or HUB_ID.match(bundle.base.model):
        shared += ["model", "revision"]
        shared += [key for key in ("prediction", "zero_snr") if settings["base"][key]]
    settings["base"] = {key: settings["base"][key] for key in shared}
    personal = _personal(bundle)
    sample = settings["sample"]
    sample["prompts"] = [p for p in sample["prompts"] if not _names(p, personal)]
    if _names(sample["negative"], personal):
        sample["negative"] = ""
    kept = {
        key: why
        for key, why in reasons.items()
        if not _names(why, personal) and not re.search(r"[/\\~]", why)
    }
    head = {"schema": SCHEMA, "name": name, "title": title, "description": description}
    return parse(document({**head, "for": {"family": bundle.base.family}, **settings}, kept))


def _personal(bundle: Bundle) -> list[str]:
    """What a person calls the subject, the run and the folders of pictures."""
    texts = [bundle.name]
    for source in bundle.dataset.sources:
        texts += [source.trigger, *Path(source.path).parts[-1:]]
    return [text.casefold() for text in texts if text.strip(" ./\\")]


def _names(text: str, personal: list[str]) -> bool:
    """Whether any of these is in a text, as words of their own."""
    words = text.casefold()
    return any(re.search(rf"(?<!\w){re.escape(p)}(?!\w)", words) for p in personal)


def save(preset: Preset, *, overwrite: bool = False) -> Path:
    """Keep a preset as one of a person's own. Returns the file.

    Raises LorakitError where the name is taken (unless `overwrite`, for a person's own).
    """
    if any(other.name == preset.name for other in shipped()):
        raise LorakitError(
            f"The name {preset.name} is that of a shipped preset.", "Choose another name."
        )
    path = user_folder() / f"{preset.name}.toml"
    if path.exists() and not overwrite:
        raise LorakitError(
            f"There is a preset {preset.name} already: {path}.", "Choose another name."
        )
    write(preset, path)
    return path


def write(preset: Preset, path: Path) -> None:
    """Write a whole preset to a file, and make sure that it reads back the same. Raises
    LorakitError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{path.parent} cannot be made: {error.strerror}."
        raise LorakitError(what, code=ExitCode.DATA) from None
    same = copy_with(preset, path=None)
    replace(path, preset.text, lambda back: parse(back).settings == same.settings)
