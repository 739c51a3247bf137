"""What any file or folder is that may be a base model, read in milliseconds, without weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lorakit.families import components, layouts, pickled, pipelines, sniff
from lorakit.families.families import FAMILIES
from lorakit.families.header import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What a path holds."""

    kind: str
    """`checkpoint` (a whole model in one file), `pipeline` (a diffusers folder), or what else it
    is: see `layouts.Content.kind`; `pickle`, `broken` or `missing` where nothing can be read."""
    family: str = ""
    """The value of `base.family`; empty where it has none."""
    title: str = ""
    """What it is, in a few words."""
    evidence: str = ""
    """What says so."""
    prediction: str = ""
    """`epsilon` or `v_prediction` where it says so itself, else empty."""
    zero_snr: bool = False
    """Whether it says that its noise schedule ends at SNR 0."""
    problem: str = ""
    """Why it cannot be trained on: a sentence with its name. Empty where it can."""
    fix: str = ""
    """The way out of the problem."""
    size_bytes: int | None = None
    """Of the file, or of the weights in a folder."""


def recognise(path: Path, pickles: bool = False) -> Recognised:
    """What the file or folder at a path is. Never raises: what cannot be read is its problem.

    `pickles`: names in pickled weights are read, too; none of their code is run.
    """
    try:
        if os.path.isdir(path):
            return _folder(path)
        return _file(path, pickles)
    except FileNotFoundError:
        return _broken(path, "is not there", "Look at its name.", "missing", None)
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}"
        return _broken(path, text, "Look at its permissions.", "broken", None)


def _file(path: Path, pickles: bool) -> Recognised:
    size = path.stat().st_size
    found = sniff.wrong(path)
    if not isinstance(found, Header) and found.pickled and pickles:
        try:
            found = pickled.read(path)
        except ValueError as error:
            return _broken(path, str(error), "Get the .safetensors file.", "pickle", size)
    if not isinstance(found, Header):
        kind = "pickle" if found.pickled else "broken"
        return _broken(path, f"is {found.what}", found.fix, kind, size)
    told = layouts.content(found)
    return Recognised(
        kind=told.kind,
        family=told.family,
        title=told.title,
        evidence=told.evidence,
        prediction=told.prediction,
        zero_snr=told.zero_snr,
        problem=f"{path.name} {told.wrong}." if told.wrong else "",
        fix=told.fix,
        size_bytes=size,
    )


def _folder(path: Path) -> Recognised:
    """A diffusers folder, by its configuration files."""
    if not os.path.isfile(path / "model_index.json"):
        text = "is a folder, and no diffusers folder: it has no model_index.json"
        return _broken(path, text, "Give the folder that has one, or one file.", "unknown", None)
    family = pipelines.family_of(path)
    if family is None:
        titles = ", ".join(f.title for f in FAMILIES.values())
        text, fix = f"is a diffusers folder of none of {titles}", "Choose a model of one of these."
        return _broken(path, text, fix, "other", None)
    parts = components.weighty(FAMILIES[family])
    weights = {part: components.weights_of(path, part) for part in parts}
    size = sum(size for found in weights.values() for size in found.values())
    lacking = [part for part, found in weights.items() if not found]
    prediction, zero_snr = pipelines.schedule_of(path)
    text = f"{path.name} has no weights in {' and '.join(lacking)}." if lacking else ""
    return Recognised(
        kind="pipeline",
        family=family,
        title=FAMILIES[family].title,
        evidence="model_index.json and unet/config.json",
        prediction=prediction,
        zero_snr=zero_snr,
        problem=text,
        fix="Download what is missing again." if lacking else "",
        size_bytes=size,
    )


def _broken(path: Path, text: str, fix: str, kind: str, size: int | None) -> Recognised:
    title = {"pickle": "pickled weights", "missing": "nothing"}.get(kind, "a file that is no model")
    return Recognised(
        kind=kind, title=title, problem=f"{path.name} {text}.", fix=fix, size_bytes=size
    )
