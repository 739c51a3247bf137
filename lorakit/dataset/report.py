"""What a scan found: every file of the folders is in one of its lists or counts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lorakit.bundle.problems import Problem
from lorakit.dataset.alike import Impression
from lorakit.dataset.buckets import Fit
from lorakit.dataset.entries import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One usable picture."""

    folder: str
    """Of its source, absolute."""
    name: str
    """Relative to that, with `/`."""
    source: int
    """Index of its source in the bundle."""
    repeats: int
    """How often it is seen in one epoch."""
    width: int
    """Upright, in pixels."""
    height: int
    fit: Fit
    """How it is brought to its bucket."""
    caption: str
    """Its first caption with the trigger: what the model is told with default settings."""
    caption_name: str | None
    """The file that the captions are from, relative to the source's folder; None: there are
    none."""
    tokens: int | None
    """Of the longest caption as it is told; None where the base's tokenizer cannot be read."""
    sha256: str
    """Of the file."""
    turned: bool
    """Whether EXIF turned it upright."""
    captions: tuple[str, ...] = ()
    """All that is said of it, each on one line and without trigger; none: no caption."""
    box: Box | None = None
    """What must stay in sight, as shares of the upright picture."""
    mask: str = ""
    """Where the loss looks: `alpha`, the sha256 of a mask's file, or empty: everywhere."""
    mask_name: str | None = None
    """The mask's file, relative to the source's folder."""
    impression: Impression | None = None
    """What it looks like, roughly."""
    alpha: Literal["none", "some", "all"] = "none"
    """How much of it is transparent."""

    @property
    def path(self) -> Path:
        """Absolute."""
        return Path(self.folder, self.name)

    @property
    def caption_path(self) -> Path | None:
        """Where the captions are from; None: there are none."""
        return Path(self.folder, self.caption_name) if self.caption_name else None

    @property
    def mask_path(self) -> Path | None:
        """The mask's file; None: there is none."""
        return Path(self.folder, self.mask_name) if self.mask_name else None

    @property
    def words(self) -> str:
        """All its captions as one text, the first with its trigger: for digests."""
        return "\n".join([self.caption, *self.captions[1:]])

    @property
    def upscale(self) -> float:
        """How much larger it is made: 2.0 doubles each side. Below 1 it is made smaller."""
        return max(self.fit.scale_width / self.width, self.fit.scale_height / self.height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A file that should be a picture or a caption, and cannot be used."""

    path: Path
    name: str
    why: str
    """One sentence."""
    fix: str


@dataclass(frozen=True, slots=True)
class Other:
    """A file that is not used, and need not be."""

    name: str
    """Relative to its source's folder, with `/`."""
    why: str
    """What it is, in a few words: `a link that leads nowhere`."""


@dataclass(frozen=True, kw_only=True)
class DatasetReport:
    """What the folders of a bundle hold."""

    pictures: tuple[Picture, ...]
    """Usable ones, by source and then by name."""
    unusable: tuple[Unusable, ...] = ()
    ignored: int = 0
    """System files: names that begin with a dot, Thumbs.db and the like."""
    captions: int = 0
    """Files of captions that are read for a picture, tables of them too."""
    masks: int = 0
    """Files of masks that are read."""
    others: tuple[Other, ...] = ()
    """Files that are neither picture nor caption of one."""
    files: int = 0
    """All files below the folders of the sources."""
    token_limit: int = 75
    """Tokens of a caption that are read."""
    findings: tuple[Problem, ...] = ()

    @property
    def account(self) -> dict[str, int]:
        """How many files are what; together they are all files."""
        return {
            "pictures used": len(self.pictures),
            "files of captions read": self.captions,
            "masks read": self.masks,
            "not usable": len(self.unusable),
            "other files": len(self.others),
            "system files": self.ignored,
        }

    @cached_property
    def buckets(self) -> dict[tuple[int, int], int]:
        """Pictures in each bucket size (width, height), the fullest first."""
        return dict(
            sorted(
                Counter((p.fit.width, p.fit.height) for p in self.pictures).items(),
                key=lambda item: (-item[1], item[0]),
            )
        )

    @cached_property
    def fullest(self) -> int:
        """Pictures of one epoch in the size that has most: no batch is larger."""
        counts = Counter[tuple[int, int]]()
        for p in self.pictures:
            counts[p.fit.width, p.fit.height] += p.repeats
        return max(counts.values(), default=0)

    @property
    def epoch(self) -> int:
        """Pictures seen in one epoch: each as often as it is repeated."""
        return sum(p.repeats for p in self.pictures)

    @property
    def captioned(self) -> int:
        """Pictures that have a caption of their own."""
        return sum(p.caption_name is not None for p in self.pictures)

    @property
    def too_long(self) -> int | None:
        """Captions longer than the text encoder reads; None where they could not be counted."""
        if any(p.tokens is None for p in self.pictures):
            return None
        return sum((p.tokens or 0) > self.token_limit for p in self.pictures)

    @property
    def upscaled(self) -> int:
        """Pictures that are smaller than their bucket."""
        return sum(p.upscale > 1 for p in self.pictures)

    @property
    def turned(self) -> int:
        """Pictures that EXIF turned upright."""
        return sum(p.turned for p in self.pictures)

    @property
    def kept(self) -> float | None:
        """Mean share of a picture's area that is left after the crop, 0 to 1."""
        if not self.pictures:
            return None
        return sum(p.fit.kept for p in self.pictures) / len(self.pictures)

    @cached_property
    def digest(self) -> str:
        """sha256 of all that the trainer learns from: names, bytes, captions and repeats.

        The same wherever the folders lie.
        """
        rows = sorted((_learned(p) for p in self.pictures), key=lambda row: row[:3])
        # JSON in ASCII: a name of any bytes has one spelling in it.
        return hashlib.sha256(json.dumps(rows).encode("ascii")).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: plain values only."""
        return {
            "pictures": [
                {
                    "path": str(p.path),
                    "source": p.source,
                    "repeats": p.repeats,
                    "width": p.width,
                    "height": p.height,
                    "bucket": [p.fit.width, p.fit.height],
                    "kept": round(p.fit.kept, 4),
                    "upscale": round(p.upscale, 3),
                    "turned": p.turned,
                    "caption": p.caption,
                    "captions": list(p.captions),
                    "caption_path": str(p.caption_path) if p.caption_path else None,
                    "box": list(p.box) if p.box else None,
                    "mask": str(p.mask_path) if p.mask_path else p.mask or None,
                    "tokens": p.tokens,
                    "sha256": p.sha256,
                }
                for p in self.pictures
            ],
            "unusable": [{"path": str(u.path), "why": u.why, "fix": u.fix} for u in self.unusable],
            "ignored": self.ignored,
            "others": [{"name": o.name, "why": o.why} for o in self.others],
            "files": self.files,
            "account": self.account,
            "buckets": [
                {"width": w, "height": h, "pictures": n} for (w, h), n in self.buckets.items()
            ],
            "epoch": self.epoch,
            "captioned": self.captioned,
            "too_long": self.too_long,
            "token_limit": self.token_limit,
            "upscaled": self.upscaled,
            "turned": self.turned,
            "kept": None if self.kept is None else round(self.kept, 4),
            "digest": self.digest,
            "findings": [
                {"where": f.where, "what": f.what, "fix": f.fix, "severity": f.severity}
                for f in self.findings
            ],
        }


def _learned(picture: Picture) -> tuple[Any, ...]:
    """What the digest takes in. A box and a mask are part of it only where there are any, so that a
    digest of before stays."""
    row: tuple[Any, ...] = (
        picture.source,
        picture.repeats,
        picture.name,
        picture.sha256,
        picture.words,
    )
    row = (*row, list(picture.box)) if picture.box else row
    return (*row, {"mask": picture.mask}) if picture.mask else row
