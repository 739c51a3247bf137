"""Changes one value of a TOML text and leaves every other character as it was."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from lorakit.bundle import keys, layout, syntax
from lorakit.bundle.layout import Place
from lorakit.bundle.values import value
from lorakit.errors import LorakitError


def edit(text: str, key: str, new: Any) -> str:
    """The text with one value changed; other lines, comments, order and line ends stay.

    A key that is not there yet is added below the last one of its table. `text` must still have
    its own line ends (`open(..., newline="")`). Raises LorakitError where the key cannot be set,
    and BundleError where the text is no TOML.
    """
    before = syntax.load(text)
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    written = value(new)
    try:
        path = keys.split(key)
        wanted = _with(before, path, tomllib.loads(f"v = {written}")["v"])
    except (LookupError, TypeError, AttributeError, ValueError):
        raise LorakitError(f"{key} has no place in this file.") from None
    written = written.replace("\n", end_of_line)
    places = layout.places(text)
    place = places.get(path)
    if place and _is_value(place):
        edited = text[: place.start] + written + text[place.end :]
    else:
        edited = _insert(text, places, path, written, end_of_line)
    try:
        done = syntax.load(edited) == wanted
    except LorakitError:
        done = False
    if not done:
        raise LorakitError(f"{key} cannot be set in this file.", "Change it with an editor.")
    return edited


def _insert(
    text: str, places: Mapping[keys.Path, Place], path: keys.Path, written: str, end_of_line: str
) -> str:
    """The text with a new key, in its table where there is one, else with a table of its own."""
    *above, last = path
    table, assignment = tuple(above), f"{keys.join([last])} = {written}"
    home = places.get(table)
    last_end = max(
        (p.end for k, p in places.items() if k and k[:-1] == table and _is_value(p)), default=0
    )
    if home and text.startswith("{", home.start):
        at = last_end or home.start + 1
        return text[:at] + (", " if last_end else "") + assignment + text[at:]
    if last_end or (home and home.header):
        at = text.find("\n", last_end or places[table].end) + 1
        if not at:
            return text + end_of_line + assignment + end_of_line
    elif not table:
        at = text.startswith("\ufeff")
    else:
        gap = end_of_line if text.endswith("\n") else end_of_line * 2
        return f"{text}{gap}[{keys.join(table)}]{end_of_line}{assignment}{end_of_line}"
    return text[:at] + assignment + end_of_line + text[at:]


def _is_value(place: Place) -> bool:
    return not place.header and place.end > place.start


def _with(data: dict[str, Any], path: keys.Path, new: Any) -> dict[str, Any]:
    node: Any = data
    for part in path[:-1]:
        node = node[part] if isinstance(part, int) else node.setdefault(part, {})
    node[path[-1]] = new
    return data
