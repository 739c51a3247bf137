"""How the numbers and texts of a run read: units behind every number, `--` for what is unknown."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

UNKNOWN = "--"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    r"""Text on one line that cannot steer a terminal: control characters are shown as `\x1b`."""
    return _CONTROL.sub(lambda found: _escaped(ord(found[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def known(value: float | None) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def number(value: float | None, form: str = ".1f", unit: str = "") -> str:
    """A number in a format such as `.1f`, with its unit."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:{form}}{' ' if unit else ''}{unit}"


def percent(value: float | None) -> str:
    """A share of 100, such as `49 %`."""
    return number(value, ".0f", "%")


def duration(seconds: float | None) -> str:
    """`45s`, `14m 05s`, `2h 03m` or `3d 04h`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{whole}s"
    if hours < 1:
        return f"{minutes}m {whole % 60:02d}s"
    if days < 1:
        return f"{hours}h {minutes % 60:02d}m"
    return f"{days}d {hours % 24:02d}h"


def span(low: float | None, high: float | None, form: Callable[[float | None], str]) -> str:
    """`40s to 1m 10s`, each end written by `form`; one of them where both read the same."""
    ends = form(low), form(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def decimal(value: float | None) -> str:
    """A number with two or three digits that count: `0.043`, `0.43`, `4.3`, `43`."""
    places = 0 if value is None or value >= 10 else 1 if value >= 1 else 2 if value >= 0.1 else 3
    return number(value, f".{places}f")


def ago(seconds: float | None) -> str:
    """`3m ago`: one unit is enough for what is past."""
    return f"{duration(seconds).split()[0]} ago" if known(seconds) else UNKNOWN


def size(count: float | None) -> str:
    """Bytes in the binary unit that suits: `87.3 MiB`."""
    if count is None or not math.isfinite(count):
        return UNKNOWN
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(count) >= 1024 and power < len(units) - 1:
        count /= 1024
        power += 1
    return f"{count:.0f} B" if power == 0 else f"{count:.1f} {units[power]}"


def speed(steps_per_second: float | None) -> str:
    """`1.12 it/s`, and below 1 the other way round: `2.31 s/it`."""
    if steps_per_second is None or not math.isfinite(steps_per_second) or steps_per_second <= 0:
        return UNKNOWN
    if steps_per_second >= 1:
        return f"{steps_per_second:.2f} it/s"
    return f"{1 / steps_per_second:.2f} s/it"


def clock(unix_seconds: float) -> str:
    """Local time of day, `12:28:03`."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(unix_seconds))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def plural(count: int, noun: str) -> str:
    """`1 picture`, `24 pictures`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
