"""What a look at pictures gives, as lines of a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from lorakit.cli import streams
from lorakit.dataset.findings import counted
from lorakit.dataset.looked import Looked
from lorakit.live.bars import bar, can_draw
from lorakit.runs.words import UNKNOWN, clean, number

LEAST, MOST = 80, 120
"""Columns that are drawn on, of narrower and of wider terminals too."""
BUCKETS = 24
"""Sizes that are listed; of more, the rest is counted."""
LISTED = 12
"""Tags, sources and reasons that are listed."""
PROBLEMS = 50
"""Problems that are listed, errors first."""
INDENT = "  "


def drawn(looked: Looked, stream: TextIO) -> Iterator[str]:
    """All of it, for a terminal of 80 columns or more; problems stand at the end, in sight."""
    width = min(max(shutil.get_terminal_size().columns, LEAST), MOST) - 1
    plain = not can_draw(stream.encoding or "ascii")
    report = looked.report
    usable = counted(len(report.pictures), "picture")
    yield f"{usable} can be used, {len(report.unusable):,} cannot."
    side = looked.dataset.resolution
    yield clean(
        f"Judged for {looked.base.model or f'any {looked.base.family}'} at {side} x {side} pixels."
    )
    for section in (
        _files(looked),
        _sources(looked, width),
        _captions(looked, width, plain),
        _buckets(looked, width, plain),
    ):
        lines = list(section)
        if lines:
            yield ""
            yield from lines
    yield ""
    yield from _problems(looked, stream)


def _files(looked: Looked) -> Iterator[str]:
    report = looked.report
    yield f"FILES{report.files:>27,}"
    for what, count in report.account.items():
        if not count:
            continue
        yield f"{INDENT}{what:<23}{count:>7,}"
        if what == "other files":  # those that cannot be used are among the problems
            reasons = Counter(other.why for other in report.others).most_common()
            for why, times in reasons[:LISTED]:
                yield clean(f"{INDENT * 2}{times:>6,}  {why}")
            if len(reasons) > LISTED:
                yield f"{INDENT * 2}and {len(reasons) - LISTED:,} more kinds"


def _sources(looked: Looked, width: int) -> Iterator[str]:
    report, sources = looked.report, looked.dataset.sources
    counts = Counter(p.source for p in report.pictures)
    rows = [
        [
            clean(s.path),
            f"{counts[n]:,}",
            f"{s.repeats:,}",
            f"{counts[n] * s.repeats:,}",
            "prior pictures" if s.prior else clean(s.trigger) or UNKNOWN,
        ]
        for n, s in enumerate(sources)
    ]
    total = ["in all", f"{len(report.pictures):,}", "", f"{report.epoch:,}", ""]
    shown = rows[:LISTED]
    if len(rows) > LISTED:
        shown.append([f"and {len(rows) - LISTED:,} more", "", "", "", ""])
    if len(rows) > 1:
        shown.append(total)
    yield from _table(["SOURCE", "PICTURES", "REPEATS", "EPOCH", "TRIGGER"], shown, "<>>><", width)


def _captions(looked: Looked, width: int, plain: bool) -> Iterator[str]:
    report = looked.report
    count = len(report.pictures)
    if not count:
        return
    yield "CAPTIONS"
    share = number(100 * report.captioned / count, ".0f", "%")
    yield f"{INDENT}{report.captioned:,} of {count:,} pictures have one, {share}"
    if looked.longest is None:
        yield f"{INDENT}tokens not counted: the tokenizer of this base cannot be read"
    else:
        yield (
            f"{INDENT}longest {looked.longest} of {report.token_limit} tokens that are read; "
            f"{report.too_long or 0:,} beyond the limit"
        )
    found = looked.frequencies
    if found.spoken:
        said = ", ".join(f"{token} {times:,}" for token, times in found.spoken[:LISTED])
        tokens = f"most frequent of {counted(found.distinct_tokens, 'token')}: {said}"
        yield from textwrap.wrap(
            clean(tokens), width, initial_indent=INDENT, subsequent_indent=INDENT * 2
        )
    often = found.shared[:LISTED]
    if not often:
        return
    most = often[0][1]
    name = min(max(cell_len(clean(tag)) for tag, _ in often), width // 2)
    yield f"{INDENT}most frequent of {counted(found.distinct_tags, 'tag')}, in captions:"
    for tag, times in often:
        drawing = bar(100 * times / most, width - name - 15, plain)
        yield f"{INDENT * 2}{times:>6,}  {_cut(clean(tag), name)}  {drawing}".rstrip()


def _buckets(looked: Looked, width: int, plain: bool) -> Iterator[str]:
    if not looked.buckets:
        return
    most = looked.buckets[0].pictures
    rows = [
        [
            f"{b.width} x {b.height}",
            f"{b.pictures:,}",
            f"{b.seen:,}",
            f"{b.kept_mean:.0%}",
            f"{b.kept_least:.0%}",
            f"{b.scale_least:.2f}x",
            f"{b.scale_most:.2f}x",
        ]
        for b in looked.buckets[:BUCKETS]
    ]
    head = ["BUCKET", "PICTURES", "EPOCH", "KEPT", "LEAST", "SCALE", "MOST"]
    lines = list(_table(head, rows, "<>>>>>>", width))
    room = width - max(map(len, lines)) - 2
    yield lines[0]
    for line, bucket in zip(lines[1:], looked.buckets, strict=False):
        yield f"{line}  {bar(100 * bucket.pictures / most, room, plain)}".rstrip()
    if len(looked.buckets) > BUCKETS:
        rest = looked.buckets[BUCKETS:]
        pictures = counted(sum(b.pictures for b in rest), "picture")
        yield f"and {counted(len(rest), 'size')} more, of {pictures}"
    yield (
        f"KEPT: mean share of a picture that is left after the crop. "
        f"Made larger: {looked.report.upscaled:,}."
    )


def _problems(looked: Looked, stream: TextIO) -> Iterator[str]:
    warnings = len(looked.problems) - looked.errors
    if not looked.problems:
        yield "No problems."
        return
    yield f"PROBLEMS  {counted(looked.errors, 'error')}, {counted(warnings, 'warning')}"
    for problem in looked.problems[:PROBLEMS]:
        head = f"{problem.severity}: "
        what = clean(problem.what)
        yield from streams.folded(what, head, INDENT, stream, whole=False)
        if problem.fix:
            yield from streams.folded(clean(problem.fix), INDENT, INDENT, stream)
    if len(looked.problems) > PROBLEMS:
        yield f"and {len(looked.problems) - PROBLEMS:,} more; --json and --html list them"


def _table(head: list[str], rows: Sequence[list[str]], align: str, width: int) -> Iterator[str]:
    """Columns as wide as they need, the first one, a path, without its start where the line
    would be too long."""
    widths = [max(cell_len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    rest = sum(widths[1:-1]) + 2 * (len(head) - 1)
    widths[-1] = min(widths[-1], max(width - rest - 20, len(head[-1])))
    widths[0] = min(widths[0], max(width - rest - widths[-1], len(head[0])))
    for first, *others in [head, *rows]:
        row = [_end(first, widths[0]), *others]
        cells = (
            f"{cell:>{size}}" if way == ">" else _cut(cell, size)
            for cell, size, way in zip(row, widths, align, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _end(text: str, size: int) -> str:
    """The text in so many cells: padded, or without its start."""
    if cell_len(text) > size:
        while cell_len(text) > size - 2:
            text = text[1:]
        text = f"..{text}"
    return set_cell_size(text, size)


def _cut(text: str, size: int) -> str:
    """The text in so many cells, of which some letters take two: padded, or without its end."""
    if cell_len(text) > size:
        text = f"{set_cell_size(text, max(size - 2, 0))}.."
    return set_cell_size(text, size)
