"""What a look at pictures gives, as one page of HTML that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lorakit import __version__
from lorakit.bundle.problems import Problem
from lorakit.dataset.buckets import Bucket
from lorakit.dataset.findings import MUCH_UPSCALED
from lorakit.dataset.looked import Looked
from lorakit.dataset.looks import cores
from lorakit.dataset.pictures import thumbnail
from lorakit.dataset.report import Picture
from lorakit.errors import LorakitError

ASSETS = Path(__file__).resolve().parent.parent / "assets" / "page"

SIDE = 160
"""The longer side of a small picture, in pixels."""
MOST_PICTURES = 500
"""So many are drawn, those with problems before others."""
MOST_PROBLEMS = 1000
MOST_LISTED = 200
"""Folders and unused files that are listed."""
MOST_CAPTIONS = 8
"""Of one picture."""
MOST_CHARACTERS = 2000
"""Of one caption."""
MOST_OF_A_WORD = 100
"""Characters of a tag, which is a whole caption where nothing stands between tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bin:
    """Pictures whose longest caption has so many tokens."""

    name: str
    count: int
    share: float
    """Of the fullest."""
    over: bool
    """Beyond what is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """One picture."""

    name: str
    alt: str
    uri: str
    """Of the small picture; empty where it could not be made."""
    width: int
    height: int
    crop: str
    """Where the frame lies; empty where all of it is trained on."""
    box: str
    facts: tuple[str, ...]
    captions: tuple[tuple[str, str], ...]
    """What is read of each, and what is not."""
    more: int
    """Captions that are left out."""
    tokens: int | None
    doubts: tuple[str, ...]
    """In a few words, where the problem names many pictures."""
    problems: tuple[Problem, ...]


def page(
    looked: Looked,
    clean: Callable[[str], str],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """The whole page. `clean` makes control characters visible; nothing in names and captions is
    ever markup. `progress` is called with pictures drawn and pictures to draw."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    report, found = looked.report, looked.frequencies
    script, style = (ASSETS.joinpath(n).read_text("utf-8") for n in ("page.js", "page.css"))
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    cards = tuple(_cards(looked, progress))
    counts = Counter(picture.source for picture in report.pictures)
    sources = looked.dataset.sources
    return environment.get_template("page.html").render(
        title=_title(looked),
        base=looked.base.model or f"any {looked.base.family}",
        resolution=looked.dataset.resolution,
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        report=report,
        problems=looked.problems,
        errors=looked.errors,
        sources=[(source, counts[n]) for n, source in enumerate(sources)],
        buckets=looked.buckets,
        shape=lambda bucket: Markup(_shape(bucket)),
        longest=looked.longest,
        lengths=_lengths(report.pictures, report.token_limit),
        said=(
            ("Most frequent tags", _rows(found.shared), found.distinct_tags, "tags"),
            ("Most frequent tokens", _rows(found.spoken), found.distinct_tokens, "tokens"),
        ),
        cards=cards,
        boxes=any(card.box for card in cards),
        random=looked.dataset.crop == "random",
        most_problems=MOST_PROBLEMS,
        most_listed=MOST_LISTED,
    )


def _title(looked: Looked) -> str:
    """The name of the folder, or of the one that holds them all."""
    places = [os.path.abspath(source.path) for source in looked.dataset.sources]
    name = os.path.basename(os.path.commonpath(places))
    return name or f"{os.path.basename(places[0])} and {len(places) - 1} more"


def _shape(bucket: Bucket) -> str:
    """A rectangle of a bucket's shape around 0, its longer side 3.4."""
    scale = 3.4 / max(bucket.width, bucket.height)
    width, height = bucket.width * scale, bucket.height * scale
    return f'x="{-width / 2:.2f}" y="{-height / 2:.2f}" width="{width:.2f}" height="{height:.2f}"'


def _lengths(pictures: Sequence[Picture], limit: int) -> tuple[_Bin, ...]:
    """How many captions are how long, in steps of a tenth or so of what is read."""
    counts = Counter(p.tokens for p in pictures if p.tokens is not None)
    if not counts:
        return ()
    step = max(1, -(-limit // 10))
    edges = [(low, min(low + step - 1, limit)) for low in range(1, limit + 1, step)]
    rows = [("none", counts[0], False)] if counts[0] else []
    last = max((n for n, (low, _) in enumerate(edges) if low <= max(counts)), default=-1)
    for low, high in edges[: last + 1]:
        rows.append((f"{low} to {high}", sum(counts[n] for n in range(low, high + 1)), False))
    over = sum(count for tokens, count in counts.items() if tokens > limit)
    if over:
        rows.append((f"{limit + 1} to {max(counts)}", over, True))
    most = max(count for _, count, _ in rows)
    return tuple(_Bin(name=n, count=c, share=c / most, over=o) for n, c, o in rows)


def _cards(looked: Looked, progress: Callable[[int, int], None]) -> Iterator[_Card]:
    own: dict[str, list[Problem]] = defaultdict(list)
    for found in looked.problems:
        own[found.where].append(found)
    pictures, limit = looked.report.pictures, looked.report.token_limit
    doubtful = [p.name in own or any(_doubts(p, limit)) for p in pictures]
    chosen = sorted(range(len(pictures)), key=lambda n: not doubtful[n])
    shown = [pictures[n] for n in sorted(chosen[:MOST_PICTURES])]
    ground = looked.dataset.background
    with ThreadPoolExecutor(min(32, cores())) as pool:
        try:
            drawn = pool.map(lambda picture: _drawn(picture.path, ground), shown)
            for done, (picture, small) in enumerate(zip(shown, drawn, strict=True), 1):
                progress(done, len(shown))
                yield _card(looked, picture, small, tuple(own.get(picture.name, ())))
        finally:
            pool.shutdown(cancel_futures=True)


def _drawn(path: Path, background: str) -> tuple[str, int, int] | None:
    """A small picture as a data URI, its width and height; None where it has gone meanwhile."""
    try:
        image = thumbnail(path, SIDE, background)
    except LorakitError:
        return None
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80, optimize=True)
    uri = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    return uri, image.width, image.height


def _card(
    looked: Looked,
    picture: Picture,
    small: tuple[str, int, int] | None,
    problems: tuple[Problem, ...],
) -> _Card:
    uri, width, height = small or ("", 0, 0)
    fit, told = picture.fit, looked.told(picture)
    crop = (
        fit.left / fit.scale_width,
        fit.top / fit.scale_height,
        fit.width / fit.scale_width,
        fit.height / fit.scale_height,
    )
    box = picture.box
    facts = [
        f"{picture.width} x {picture.height} to {fit.width} x {fit.height}",
        f"keeps {fit.kept:.0%}",
        f"scaled {picture.upscale:.2f}x",
    ]
    facts += [f"{picture.repeats} times"] if picture.repeats > 1 else []
    facts += ["turned upright"] if picture.turned else []
    facts += [f"mask {picture.mask_name or picture.mask}"] if picture.mask else []
    return _Card(
        name=picture.name,
        alt=_short(f"{picture.name}: {told[0]}" if told[0] else picture.name, 150),
        uri=uri,
        width=width,
        height=height,
        crop="" if fit.kept == 1 else _place(*crop),
        box=_place(box[0], box[1], box[2] - box[0], box[3] - box[1]) if box else "",
        facts=tuple(facts),
        captions=tuple(_split(looked, text) for text in told[:MOST_CAPTIONS]),
        more=len(told) - MOST_CAPTIONS,
        tokens=picture.tokens,
        doubts=tuple(_doubts(picture, looked.report.token_limit)),
        problems=problems,
    )


def _doubts(picture: Picture, limit: int) -> Iterator[str]:
    if not picture.caption:
        yield "no caption"
    if picture.upscale > MUCH_UPSCALED:
        yield f"made {picture.upscale:.1f}x as large"
    if picture.fit.extreme:
        yield f"longer than 4:1, keeps {picture.fit.kept:.0%}"
    if picture.tokens is not None and picture.tokens > limit:
        yield f"{picture.tokens - limit} tokens are cut"


def _split(looked: Looked, text: str) -> tuple[str, str]:
    """What is read of a caption, and what lies behind the last token that is."""
    cut = looked.counter.measure(text).cut if looked.counter else ""
    read = text[: len(text) - len(cut)]
    return _short(read, MOST_CHARACTERS), _short(cut, MOST_CHARACTERS)


def _rows(counts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(_short(word, MOST_OF_A_WORD), count) for word, count in counts]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def _place(left: float, top: float, width: float, height: float) -> str:
    """Shares of a picture as a place over it."""
    return f"left:{left:.2%};top:{top:.2%};width:{width:.2%};height:{height:.2%}"
