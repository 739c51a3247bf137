"""What is said of one picture in a table of keys: a `.json` file beside it, or a row of metadata.

Keys that are read: the first there is of `captions`, `caption` and `text`, each a text or a list of
texts, which are several captions; else `tags`, a text or a list that becomes one caption; and
`box`, what must stay in sight: left, top, right and bottom of it. Other keys are left alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorakit.dataset.captions import folded

CAPTIONS = ("captions", "caption", "text")

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, from the top left of the upright picture: in pixels, or all of them
shares of its width and height, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is said of one picture."""

    captions: tuple[str, ...] = ()
    """On one line each; none is empty."""
    box: Box | None = None


def entry(said: Mapping[str, Any], separator: str) -> Entry:
    """The entry in a table; `separator` goes between the tags of a list.

    Raises ValueError with what is wrong with a value.
    """
    key = next((k for k in CAPTIONS if said.get(k) is not None), None)
    if key is not None:
        captions = _texts(key, said[key])
    elif said.get("tags") is not None:
        captions = (folded(f"{separator.strip()} ".join(_texts("tags", said["tags"]))),)
    else:
        captions = ()
    return Entry(tuple(c for c in captions if c), _box(said.get("box")))


def load(text: str) -> dict[str, Any]:
    """A table from JSON. Raises ValueError with what is wrong with it."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        raise ValueError(f"is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("is not a table of keys and values")
    return found


def shares(box: Box, width: int, height: int) -> Box | None:
    """The part of a box that lies within a picture of these sizes in pixels, as shares of them.

    None where no part of it does.
    """
    across, down = (1, 1) if max(box) <= 1 else (width, height)
    left, top = box[0] / across, box[1] / down
    right, bottom = min(box[2] / across, 1.0), min(box[3] / down, 1.0)
    return (left, top, right, bottom) if left < right and top < bottom else None


def _texts(key: str, value: object) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"has {json.dumps(text)[:40]} as {key}, which is no text")
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise ValueError(f"has half a character in {key}")
    return tuple(map(folded, texts))


def _box(value: object) -> Box | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):  # in CSV
        try:
            value = json.loads(value)
        except ValueError:
            raise _no_box(value) from None
    if not isinstance(value, list) or len(value) != 4:
        raise _no_box(value)
    if not all(type(n) in (int, float) and math.isfinite(n) and n >= 0 for n in value):
        raise _no_box(value)
    left, top, right, bottom = map(float, value)
    if left >= right or top >= bottom:
        raise _no_box(value)
    return left, top, right, bottom


def _no_box(value: object) -> ValueError:
    shown = value if isinstance(value, str) else json.dumps(value)
    return ValueError(
        f"has the box {shown[:60]}, and a box is [left, top, right, bottom] with left < right and "
        "top < bottom, in pixels or as shares of 0 to 1"
    )
