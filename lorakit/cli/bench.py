"""`lorakit bench` and `lorakit bench compare`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from lorakit.bundle.models import Adapter, Memory
from lorakit.cli import bench_table, streams
from lorakit.errors import ExitCode, LorakitError
from lorakit.hardware.detect import detect
from lorakit.runs import bench as benchmark
from lorakit.runs.bench_file import Bench, Case, read
from lorakit.runs.words import clean, plural, size, speed


def bench(
    base: str | None,
    synthetic: bool,
    ranks: str | None,
    attention: str | None,
    full: bool,
    out: Path | None,
    resume: bool,
) -> int:
    """Measure, print the table, write the file and the picture beside it."""
    if out is not None and out.suffix != ".toml":
        raise LorakitError(
            f"{out} is no name for a TOML file.", "Give it one that ends in .toml: --out FILE.toml."
        )
    request = benchmark.Request(
        base=base,
        synthetic=synthetic,
        ranks=_ranks(ranks) if ranks is not None else benchmark.RANKS,
        attention=_kernels(attention) if attention is not None else None,
        full=full,
    )
    streams.err("measuring; Ctrl-C keeps what is done")
    measured = benchmark.measure(request, detect(), out, resume, _say)
    found, file = measured.bench, measured.file
    if found.cases:
        bench_table.show(found)
    streams.err(f"written to {file}")
    if any(case.step_seconds for case in found.cases):
        from lorakit.cli.bench_picture import draw

        picture = file.with_suffix(".png")
        draw(found, picture)
        streams.err(f"written to {picture}")
    if measured.missing:
        cases = plural(measured.missing, "more case")
        why = f"{cases} to go" if measured.interrupted else f"there was no time for {cases}"
        again = f"lorakit bench --resume --out {shlex.quote(str(file))}"
        streams.err(f"{why}. The same command with --resume goes on:", f"  {again} ...")
    if measured.interrupted:
        return ExitCode.INTERRUPTED
    worked = any(not case.failure for case in found.cases)
    return ExitCode.OK if worked else ExitCode.TRAINING_FAILED


def _say(case: Case, done: int, total: int) -> None:
    peak = size(case.peak_gib and case.peak_gib * 2**30)
    said = case.failure or f"{speed(case.rate)}, {peak}"
    streams.err(clean(f"{done:>3}/{total}  rank {case.rank}, {case.attention}: {said}"))


def _ranks(text: str) -> tuple[int, ...]:
    """`1,16,128` as numbers, each once, in order."""
    most = _most(Adapter.model_fields["rank"].metadata)
    given = [part.strip() for part in text.split(",")]
    for part in given:
        if not (part.isascii() and part.isdecimal() and 1 <= int(part) <= most):
            raise LorakitError(
                f"{part or 'An empty text'} is no rank: whole numbers from 1 to {most}.",
                "Such as --ranks 1,16,128.",
            )
    return tuple(sorted({int(part) for part in given}))


def _most(limits: Iterable[object]) -> int:
    """The upper limit among a field's."""
    return next(int(limit.le) for limit in limits if hasattr(limit, "le"))


def _kernels(text: str) -> tuple[str, ...]:
    """`sdpa,xformers` as names, each once."""
    known = Memory.model_fields["attention"].annotation
    names = getattr(known, "__args__", ())
    given = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in given:
        if name not in names:
            raise LorakitError(
                f"{name or 'An empty text'} is no attention kernel: {', '.join(names)}.",
                "Such as --attention sdpa.",
            )
    return given


def compare(one: Path, other: Path) -> int:
    """Print two files side by side, what differs between their machines, and the ratios."""
    a, b = read(one), read(other)
    bench_table.show_both(a, b, (_name(one, other), _name(other, one)))
    both = _common(a, b)
    if not both:
        streams.err("they have no measured case in common")
    else:
        streams.err(f"ratios over {plural(len(both), 'common case')}: more than 1 is faster in B")
    return 0


def _common(a: Bench, b: Bench) -> list[tuple[int, str]]:
    measured = {case.key for case in b.cases if case.step_seconds}
    return [case.key for case in a.cases if case.step_seconds and case.key in measured]


def _name(path: Path, other: Path) -> str:
    """A file as short as tells it from the other."""
    return path.name if path.name != other.name else str(path)
