"""The page of a look at pictures, read as a browser reads it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image
from torture import build

from lorakit.bundle.models import Dataset
from lorakit.dataset import page as pages
from lorakit.dataset.buckets import table
from lorakit.dataset.captions import counter
from lorakit.dataset.frequencies import frequencies
from lorakit.dataset.layout import layout
from lorakit.dataset.looked import Looked
from lorakit.dataset.page import page
from lorakit.dataset.scan import scan
from lorakit.families.base_model import usual
from lorakit.runs.words import clean

VOID = {"meta", "link", "img", "input"}
ADDRESSES = {"src", "href", "action", "data", "poster", "srcset", "formaction", "xlink:href"}


@dataclass
class Element:
    name: str
    has: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    def every(self, name: str = "", **has: str) -> Iterator[Element]:
        for part in self.parts:
            if isinstance(part, Element):
                wanted = all(v in part.has.get(k.rstrip("_"), "").split() for k, v in has.items())
                if wanted and name in ("", part.name):
                    yield part
                yield from part.every(name, **has)


class Reader(HTMLParser):
    """Builds the tree, and fails where an element is not closed, or not in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Element("", {})
        self.open = [self.top]
        self.declared: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].parts.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        self.declared.append(decl)


def read(text: str) -> Element:
    text.encode("utf-8")
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.declared == ["DOCTYPE html"]
    assert reader.open == [reader.top]
    return reader.top


def look(folder: Path, resolution: int = 64, **shape: object) -> Looked:
    dataset = Dataset.model_validate({"sources": layout(folder), "resolution": resolution, **shape})
    facts = usual("sd1")
    report = scan(dataset, folder, facts)
    tokens = counter(None, facts.token_limit)
    return Looked(
        report=report,
        dataset=dataset,
        base=facts,
        counter=tokens,
        frequencies=frequencies(report.pictures, dataset.captions, tokens),
        buckets=table(report.pictures),
    )


def picture(
    path: Path, caption: str = "", width: int = 64, height: int = 64, shade: int = 0
) -> None:
    Image.new("RGB", (width, height), (shade, 200, 9)).save(path, format="PNG")
    if caption:
        path.with_suffix(".txt").write_text(caption, encoding="utf-8")


ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}<!-- & \x1b[31m"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Names and captions that try to be markup, and a fault of most kinds."""
    folder = tmp_path / "<script>alert(2)<b>"
    folder.mkdir()
    long = ", ".join(f"thing {n}" for n in range(40))
    picture(folder / "a.png", ATTACK)
    picture(folder / '"><img src=x onerror=alert(3)>.png', "</style></title></script>", shade=1)
    picture(folder / "new\nline \x1b[2J.png", long, shade=2)
    picture(folder / "wide.png", "</p></article>", width=400, height=40)
    picture(folder / "small.png", width=8, height=8)
    picture(folder / "again.png", "a tag, </script>, javascript:alert(4)")
    (folder / "<b>.jpg").write_text("<html>")
    (folder / "x.json").write_text("{")
    (folder / "notes<i>.md").write_text("text")
    return folder


def test_every_picture_and_problem_is_on_it_and_nothing_of_theirs_is_markup(hostile: Path) -> None:
    looked = look(hostile)
    top = read(page(looked, clean))
    [problems] = top.every("section", id="problems")
    listed = [" ".join(item.text.split()) for item in problems.every("li")]
    assert looked.errors == 1
    assert len(listed) == len(looked.problems) >= 5
    for said, problem in zip(listed, looked.problems, strict=True):
        assert " ".join(clean(problem.what).split()) in said
        assert " ".join(clean(problem.fix).split()) in said
    cards = list(top.every("article"))
    assert [next(card.every("h3")).text for card in cards] == [
        clean(p.name) for p in looked.report.pictures
    ]
    of = dict(zip((p.name for p in looked.report.pictures), cards, strict=True))
    assert clean(ATTACK) in of["a.png"].text
    assert {e.name for e in top.every()} == {
        "html", "head", "meta", "title", "link", "style", "body", "header", "h1", "p", "dl", "div",
        "dt", "dd", "nav", "a", "main", "section", "h2", "h3", "ul", "ol", "li", "b", "strong",
        "span", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "svg", "rect", "article",
        "img", "form", "label", "input", "output", "script", "del",
    }  # fmt: skip
    assert len(list(top.every("script"))) == 1
    assert len(list(top.every("img"))) == len(cards)
    assert not [n for e in top.every() for n in e.has if n.startswith("on")]
    for name in ("notes<i>.md", "x.json"):
        assert any(cell.text == name for cell in top.every("th"))


def test_nothing_is_fetched_and_only_its_own_script_may_run(hostile: Path) -> None:
    text = page(look(hostile), clean)
    top = read(text)
    for element in top.every():
        for name in ADDRESSES & element.has.keys():
            assert element.has[name].startswith(("data:image/jpeg;base64,", "data:,", "#")), name
    [style], [script] = top.every("style"), top.every("script")
    assert not re.search(r"url\(|@import|//", style.text)
    assert not re.search(r"https?:|fetch|import|innerHTML|eval", script.text)
    [policy] = (e for e in top.every("meta") if "content-security" in str(e.has).lower())
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert policy.has["content"].split("; ") == [
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
    ]


def test_a_picture_stands_upright_with_its_frame_box_and_cut_caption(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    image = Image.new("RGB", (320, 200), "red")
    image.paste("blue", (0, 0, 160, 200))
    image.save(tmp_path / "a.png", exif=turned)
    (tmp_path / "a.json").write_text(
        json.dumps({"caption": " ".join(["word"] * 80), "box": [20, 32, 100, 64]})
    )
    looked = look(tmp_path, buckets=False)
    [shown] = looked.report.pictures
    [card] = read(page(looked, clean)).every("article")
    [img] = card.every("img")
    raw = base64.b64decode(img.has["src"].partition(",")[2])
    with Image.open(io.BytesIO(raw)) as small:
        assert small.size == (100, 160)
        assert (img.has["width"], img.has["height"]) == ("100", "160")
        blue, red = small.getpixel((50, 10)), small.getpixel((50, 150))
    assert blue[2] > 200 > 50 > blue[0]
    assert red[0] > 200 > 50 > red[2]
    assert img.has["alt"].startswith("a.png: word word")
    [crop] = card.every("span", class_="crop")
    fit = shown.fit
    top = f"{fit.top / fit.scale_height:.2%}"
    assert crop.has["style"] == f"left:0.00%;top:{top};width:100.00%;height:{64 / 102:.2%}"
    [box] = card.every("span", class_="box")
    assert box.has["style"] == "left:10.00%;top:10.00%;width:40.00%;height:10.00%"
    [cut] = card.every("del")
    assert cut.text.split() == ["word"] * 5
    assert "80 of 75 tokens" in card.text
    assert "5 tokens are cut" in card.text


def test_all_of_a_picture_has_no_frame(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", "a")
    [card] = read(page(look(tmp_path), clean)).every("article")
    assert not list(card.every("span", class_="crop"))


def test_sizes_and_lengths_are_all_counted(hostile: Path) -> None:
    looked = look(hostile)
    top = read(page(looked, clean))
    [sizes] = top.every("section", id="sizes")
    rows = [[cell.text for cell in row.parts if isinstance(cell, Element)]
            for row in sizes.every("tr")][1:]  # fmt: skip
    assert [(row[0], int(row[1])) for row in rows] == [
        (f"{b.width} x {b.height}", b.pictures) for b in looked.buckets
    ]
    [said] = top.every("section", id="captions")
    counts = [int(next(row.every("td")).text) for row in said.every("tr") if list(row.every("td"))]
    assert sum(counts) == len(looked.report.pictures)


def test_it_is_bounded_and_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_PICTURES", 3)
    monkeypatch.setattr(pages, "MOST_PROBLEMS", 2)
    for n in range(6):
        picture(tmp_path / f"{n}.png", "word " * 9000, shade=40 * n)
        (tmp_path / f"{n}.jpg").write_text("none")
    picture(tmp_path / "z.png", width=4, height=4)
    told: list[tuple[int, int]] = []
    looked = look(tmp_path)
    text = page(looked, clean, lambda done, total: told.append((done, total)))
    top = read(text)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert len(list(top.every("article"))) == 3
    left = [element.text for element in top.every("p", class_="more")]
    assert f"and {len(looked.problems) - 2} more problems" in left
    assert "and 4 more pictures" in left
    assert len(text) < 40_000


def test_doubtful_pictures_are_drawn_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_PICTURES", 1)
    picture(tmp_path / "a.png", "a")
    picture(tmp_path / "z.png", "z", width=4, height=4)
    [card] = read(page(look(tmp_path), clean)).every("article")
    assert "z.png" in card.text
    assert "made 16.0x as large" in card.text


def test_a_folder_without_pictures_is_a_page_too(tmp_path: Path) -> None:
    [main] = read(page(look(tmp_path), clean)).every("main")
    [problem] = main.every("li", class_="error")
    assert "No pictures in" in problem.text
    assert not list(main.every("article"))


def test_a_picture_that_goes_meanwhile_is_said(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", "a")
    looked = look(tmp_path)
    (tmp_path / "a.png").unlink()
    [card] = read(page(looked, clean)).every("article")
    assert "not drawn" in card.text
    assert not list(card.every("img"))


def test_the_worst_folder_is_drawn_upright_and_whole(tmp_path: Path) -> None:
    usable, unusable, others, _ = build(tmp_path / "worst")
    looked = look(tmp_path / "worst")
    top = read(page(looked, clean))
    cards = {next(card.every("h3")).text: card for card in top.every("article")}
    assert len(cards) == len(usable)
    for name, wanted in usable.items():
        own = [p.name for p in looked.report.pictures if name.endswith(p.name)]
        card = cards[clean(max(own, key=len))]
        [img] = card.every("img")
        width, height = wanted.size
        scale = min(1, pages.SIDE / max(width, height))
        drawn = int(img.has["width"]), int(img.has["height"])
        assert drawn == (max(1, round(width * scale)), max(1, round(height * scale))), name
        with Image.open(io.BytesIO(base64.b64decode(img.has["src"].partition(",")[2]))) as small:
            assert small.size == drawn
            if min(drawn) >= 16:  # the seam of smaller ones is in the corners
                last = (drawn[0] - 3, drawn[1] - 3)
                for at, colour in (((2, 2), wanted.top_left), (last, wanted.bottom_right)):
                    found = small.convert("RGB").getpixel(at)
                    off = [abs(a - b) for a, b in zip(found, colour or found, strict=True)]
                    assert max(off) <= 40, (name, found, colour)
    said = top.text
    for name in [*unusable, *others]:
        assert clean(name.rsplit("/", 1)[-1]) in said
