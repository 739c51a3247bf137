"""A machine as a TOML file: for bug reports, and for planning on a machine that is not here."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorakit.errors import LorakitError
from lorakit.hardware.facts import Hardware

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1


def save(hardware: Hardware, path: Path) -> None:
    """Write the facts of a machine, to three decimals or digits, with what is doubtful about it."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("A machine as lorakit sees it: lorakit hardware --save"))
    plain = _adapter().dump_python(hardware, mode="json")
    document.update({"schema": SCHEMA, **_known(plain)})
    path.write_text(tomlkit.dumps(document), encoding="utf-8", newline="\n")


def load(path: Path) -> Hardware:
    """The machine in a file; keys of newer versions are passed over.

    Raises LorakitError where it is none.
    """
    from pydantic import ValidationError

    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LorakitError(
            f"The machine file {path} cannot be read: {why}.",
            "lorakit hardware --save FILE writes one.",
        ) from None
    if raw.pop("schema", None) != SCHEMA:
        raise LorakitError(
            f"The machine file {path} does not say schema = {SCHEMA}.",
            "Write it again with lorakit hardware --save.",
        )
    if raw.keys().isdisjoint(field.name for field in dataclasses.fields(Hardware)):
        raise LorakitError(
            f"The file {path} holds no machine.", "lorakit hardware --save FILE writes one."
        )
    try:
        found = _adapter().validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise _wrong(path, key, first["msg"]) from None
    for key, number in _numbers(dataclasses.asdict(found)):
        above = ".speed." in f".{key}" or key == "cpu_threads"
        if not math.isfinite(number) or number < 0 or (above and number == 0):
            least = "above 0" if above else "0 or more"
            raise _wrong(path, key, f"{number:g} is not a number {least}")
    return found


def _wrong(path: Path, key: str, why: str) -> LorakitError:
    return LorakitError(
        f"The machine file {path} has a wrong {key or 'entry'}: {why}.",
        "Write it again with lorakit hardware --save.",
    )


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a table, each with its dotted key."""
    if isinstance(value, int | float):
        yield key, value
    within = enumerate(value) if isinstance(value, list | tuple) else ()
    for name, inner in value.items() if isinstance(value, dict) else within:
        yield from _numbers(inner, f"{key}.{name}" if key else str(name))


@cache
def _adapter() -> TypeAdapter[Hardware]:
    from pydantic import TypeAdapter

    return TypeAdapter(Hardware)


def _known(value: Any) -> Any:
    """Without what is unknown or empty, and with rounded numbers."""
    if isinstance(value, dict):
        return {k: _known(v) for k, v in value.items() if v not in (None, [], {})}
    if isinstance(value, list):
        return [_known(v) for v in value]
    if not isinstance(value, float):
        return value
    return round(value, 3) if value >= 1 else float(f"{value:.3g}")
