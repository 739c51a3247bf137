"""`lorakit captions`: counts tags, and changes captions once the difference has been seen."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from lorakit.cli import streams
from lorakit.dataset import difference, edits, journal
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.words import clean, plural

SHOWN = 20
"""Files whose difference is shown unless all are asked for."""


def change(
    paths: list[Path], planned: Callable[[Path], edits.Plan], *, yes: bool, every: bool
) -> int:
    """Show what a change does to the captions of some folders, and make it once it is agreed to.

    Without a terminal to ask on nothing is written unless `yes` is given.
    """
    plans = [planned(folder) for folder in edits.outermost(_folders(paths))]
    for plan in plans:
        for error in plan.refused:
            streams.report(error)
    count = sum(len(plan.edits) for plan in plans)
    same = sum(plan.same for plan in plans)
    streams.out(*_differences(plans, None if every else SHOWN))
    streams.out(f"{plural(count, 'caption')} would change, {same} would stay as {_are(same)}.")
    elsewhere = sum(plan.elsewhere for plan in plans)
    if elsewhere:
        streams.err(
            f"{plural(elsewhere, 'picture')} with captions in .json files or tables, which stay as "
            "they are."
        )
    if any(plan.refused for plan in plans):
        raise LorakitError(
            f"{plural(sum(len(p.refused) for p in plans), 'problem')}, so nothing is written.",
            "Mend that first, or name other folders.",
            ExitCode.DATA,
        )
    if not count:
        return 0
    if not yes and not _agreed():
        return 0
    journal.apply(*plans)
    streams.err(f"{plural(count, 'caption')} changed. lorakit captions undo takes it back.")
    return 0


def undo(paths: list[Path], *, yes: bool, force: bool) -> int:
    """Show what the last change in some folders was, and take it back once that is agreed to."""
    entries = journal.newest(_folders(paths))
    if not entries:
        raise LorakitError(
            "There is no change to take back.", "Changes are kept in the folder they were made in."
        )
    for entry in entries:
        streams.out(f"{clean(str(entry.folder))}: {clean(entry.what)}")
        back = [(e.name, e.new, e.old, e.before is None) for e in entry.edits]
        streams.out(*_listed(back, SHOWN))
    if not yes and not _agreed():
        return 0
    count = journal.undo(*entries, force=force)
    streams.err(f"{plural(count, 'caption')} as before.")
    return 0


def count(paths: list[Path], limit: int, separator: str, as_json: bool) -> int:
    """Print how many captions hold each tag."""
    counts = Counter[str]()
    for folder in edits.outermost(_folders(paths)):
        counts += edits.tags(folder, separator)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if as_json:
        streams.out_json(dict(ranked))
        return 0
    if not ranked:
        streams.err("No captions there.")
    for tag, number in ranked[:limit]:
        streams.out(f"{number:>7,}  {clean(tag)}")
    if len(ranked) > limit:
        streams.err(f"and {len(ranked) - limit:,} more; --tags {len(ranked)} prints all")
    return 0


def _folders(paths: list[Path]) -> list[Path]:
    for path in paths:
        if not path.is_dir():
            raise LorakitError(
                f"{path} is no folder.", "Name the folder that the pictures are in.", ExitCode.DATA
            )
    return list(dict.fromkeys(path.resolve() for path in paths))


def _differences(plans: list[edits.Plan], limit: int | None) -> Iterator[str]:
    for plan in plans:
        if len(plans) > 1 and plan.edits:
            yield f"{clean(str(plan.folder))}:"
        rows = [(e.name, e.old, e.new, False) for e in plan.edits]
        yield from _listed(rows, limit)


def _listed(rows: list[tuple[str, str, str, bool]], limit: int | None) -> Iterator[str]:
    width = shutil.get_terminal_size().columns - 1
    for name, old, new, goes in rows[:limit]:
        yield clean(name) + (" (is removed)" if goes else "" if old else " (new)")
        yield from difference.lines(old, new, width)
    if limit is not None and len(rows) > limit:
        yield f"and {len(rows) - limit:,} more; --all shows them"


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LorakitError(
            "Nothing was written: there is no terminal to ask on.",
            "--yes writes without asking.",
        )
    streams.err("Go on? [y/N] ")
    answer = sys.stdin.readline().strip().lower()
    if answer in ("y", "yes"):
        return True
    streams.err("Nothing was written.")
    return False


def _are(count: int) -> str:
    return "it is" if count == 1 else "they are"
