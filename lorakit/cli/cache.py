"""`lorakit cache`: what the encoders said, kept for later trainings."""

from __future__ import annotations

import sys
import time
from typing import Any

from lorakit.bundle.paths import cache_folder
from lorakit.cache.shelves import Shelf, clear, shelves
from lorakit.cli import streams
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import words

DAY_SECONDS = 86400
WHAT = {"latents": "pictures", "text": "captions"}


def show(as_json: bool) -> int:
    """Print what is cached, for which base models, and when it was used last."""
    found = shelves(cache_folder())
    if as_json:
        streams.out_json({"folder": str(cache_folder()), "cached": [_facts(s) for s in found]})
        return 0
    where = words.clean(str(cache_folder()))
    if not found:
        streams.err(f"Nothing is cached in {where}.")
        return 0
    streams.out(*_table(found))
    size = words.size(sum(s.size_bytes for s in found))
    streams.err(f"{size} in {where}. It is made anew where it is missing: lorakit cache clear")
    return 0


def remove(base: str | None, older_than_days: float | None, yes: bool, as_json: bool) -> int:
    """Take away what is cached, all of it or some; what a training uses stays."""
    now = time.time()
    found = [
        s
        for s in shelves(cache_folder())
        if (base is None or base in s.bases)
        and (older_than_days is None or now - s.used > older_than_days * DAY_SECONDS)
    ]
    free = [s for s in found if not s.in_use]
    if free and not yes and not _agreed(free):
        streams.err("Nothing was removed.")
        return 0
    freed, removed, kept = 0, 0, len(found) - len(free)
    for shelf in free:
        try:
            size = clear(shelf)
        except OSError as error:
            raise LorakitError(
                f"{shelf.folder} cannot be removed: {error.strerror or error}.",
                "Allow writing there, or remove it by hand.",
                ExitCode.DATA,
            ) from error
        if size is None:
            kept += 1
        else:
            freed, removed = freed + size, removed + shelf.entries
    if as_json:
        streams.out_json({"removed_entries": removed, "freed_bytes": freed, "in_use": kept})
        return 0
    streams.out(f"{_count(removed)} removed, {words.size(freed)} freed.")
    if kept:
        lines = "1 line" if kept == 1 else f"{kept} lines"
        streams.err(f"A running training uses {lines} of lorakit cache: nothing of it was removed.")
    return 0


def _agreed(free: list[Shelf]) -> bool:
    """Ask a person; raise where there is none."""
    size = words.size(sum(s.size_bytes for s in free))
    what = f"{_count(sum(s.entries for s in free))}, {size}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LorakitError(
            f"{what} would be removed, and there is nobody to ask.", "Add --yes to remove them."
        )
    streams.err(*_table(free), "")
    sys.stderr.write(f"Remove {what}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _count(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def _facts(shelf: Shelf) -> dict[str, Any]:
    return {
        "what": WHAT[shelf.kind],
        "bases": list(shelf.bases),
        "entries": shelf.entries,
        "size_bytes": shelf.size_bytes,
        "files": shelf.files,
        "damaged_files": shelf.damaged,
        "used": shelf.used,
        "in_use": shelf.in_use,
        "folder": str(shelf.folder),
    }


def _table(found: list[Shelf]) -> list[str]:
    """Columns as wide as what stands in them; bases come last, for their length is free."""
    rows = [("WHAT", "ENTRIES", "SIZE", "LAST USED", "MADE FOR")]
    for shelf in found:
        bases = ", ".join(words.clean(b) for b in shelf.bases) or words.UNKNOWN
        damaged = f" ({shelf.damaged} damaged files)" if shelf.damaged else ""
        rows.append(
            (
                WHAT[shelf.kind],
                f"{shelf.entries:,}",
                words.size(shelf.size_bytes),
                "in use now" if shelf.in_use else words.ago(time.time() - shelf.used),
                bases + damaged,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                row[1].rjust(widths[1]),
                row[2].rjust(widths[2]),
                row[3].ljust(widths[3]),
                row[4],
            ]
        )
        for row in rows
    ]
