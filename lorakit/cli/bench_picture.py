"""A benchmark as a picture: speed and memory over the rank, measured beside predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.cli.bench_table import heading, unit
from lorakit.errors import LorakitError
from lorakit.runs.bench_file import Bench, Case
from lorakit.runs.words import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (9.0, 4.2)
DPI = 150

COLOURS = {"sdpa": "#0b6e99", "xformers": "#c25a00"}
MARKERS = {"sdpa": "o", "xformers": "s"}
"""Attention kernels differ in shape as well as in colour."""
GREY = "#555555"

Of = Callable[[Case], float | None]


def draw(bench: Bench, path: Path) -> None:
    """Write a benchmark as a PNG. Raises LorakitError where it cannot be written."""
    # Not pyplot: it looks for a screen, and keeps figures.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    what, where = (clean(line).replace("$", r"\$") for line in heading(bench))
    figure.suptitle(f"{where}\n{what}", fontsize=10, color="#222222")
    speed, memory = figure.subplots(1, 2)
    _panel(speed, bench, "steps a second", lambda c: c.rate, lambda c: c.predicted_rate)
    suits = unit(bench)
    gib = 1 / suits.in_gib
    _panel(
        memory,
        bench,
        f"peak memory, {suits.name}",
        lambda c: None if c.peak_gib is None else c.peak_gib * gib,
        lambda c: None if c.predicted_peak_gib is None else c.predicted_peak_gib * gib,
    )
    handles, labels = speed.get_legend_handles_labels()
    for handle, label in zip(*memory.get_legend_handles_labels(), strict=True):
        if label not in labels:
            handles, labels = [*handles, handle], [*labels, label]
    if len(labels) > 1:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9
        )
    try:
        figure.savefig(path, format="png", metadata={"Software": None})
    except OSError as error:
        raise LorakitError(f"{path} cannot be written: {error.strerror or error}.") from error


def _kernels(bench: Bench) -> list[str]:
    return sorted({case.attention for case in bench.cases})


def _panel(axes: Axes, bench: Bench, title: str, measured: Of, predicted: Of) -> None:
    """One quantity over the rank, from 0: measured solid, predicted hollow and larger, so that
    it is seen around a measured point that it meets."""
    from matplotlib.patheffects import withStroke

    ranks = sorted({case.rank for case in bench.cases})
    kernels = {a: [c for c in bench.cases if c.attention == a] for a in _kernels(bench)}
    # The line that begins highest has its numbers above, so those of the others stand below them.
    first = {a: next(filter(None, map(measured, kernels[a])), 0.0) for a in kernels}
    highest = max(first, key=lambda a: first[a], default="")
    for attention, cases in kernels.items():
        colour, marker = COLOURS.get(attention, GREY), MARKERS.get(attention, "D")
        offset = (0, 7) if attention == highest else (0, -14)
        found = [(c.rank, v) for c in cases if (v := measured(c)) is not None]
        if found:
            axes.plot(
                *zip(*found, strict=True), color=colour, marker=marker, markersize=6,
                linewidth=1.8, label=f"{attention}, measured", zorder=3,
            )  # fmt: skip
            for rank, value in found:
                axes.annotate(
                    f"{value:#.3g}".rstrip("."), (rank, value), xytext=offset,
                    textcoords="offset points", ha="center", fontsize=8, color=colour,
                    path_effects=[withStroke(linewidth=2.5, foreground="white")], zorder=4,
                )  # fmt: skip
        told = [(c.rank, v) for c in cases if (v := predicted(c)) is not None]
        if told:
            axes.plot(
                *zip(*told, strict=True), color=colour, marker=marker, markersize=10,
                markerfacecolor="white", linewidth=1.2, linestyle=(0, (4, 3)),
                label=f"{attention}, predicted", zorder=2,
            )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(rank) for rank in ranks])
    axes.minorticks_off()
    axes.set_ylim(0, axes.get_ylim()[1] * 1.12)
    axes.margins(x=0.08)
    axes.set_xlabel("rank", fontsize=9)
    axes.set_title(title, fontsize=10, loc="left", color="#222222")
    axes.tick_params(labelsize=9, colors=GREY)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#bbbbbb")
