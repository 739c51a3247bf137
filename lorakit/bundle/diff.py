"""What differs between two bundles or two locks, by meaning: values and not texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorakit.bundle import keys
from lorakit.bundle.lock import Lock, LockedDataset, LockedPicture
from lorakit.bundle.models import Bundle
from lorakit.bundle.values import shown
from lorakit.bundle.write import tables

PICTURES = 10
"""Lines about pictures and captions that are shown of a longer list."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not the same."""

    what: str
    """Its dotted key; of a lock its name in words."""
    then: Any
    """None: it is absent."""
    now: Any
    of_picture: bool = False
    """It is about one picture or caption, of which there may be thousands."""

    def __str__(self) -> str:
        then, now = ("absent" if v is None else shown(v) for v in (self.then, self.now))
        return f"{self.what}  {then} -> {now}"


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Every value that differs between two sets of plain tables, in their order."""
    a, b = dict(_flat(then, ())), dict(_flat(now, ()))
    return [
        Difference(keys.join(path), a.get(path), b.get(path))
        for path in dict.fromkeys((*a, *b))
        if a.get(path) != b.get(path)
    ]


def of_bundles(then: Bundle, now: Bundle) -> list[Difference]:
    """The settings that differ. Paths are compared as they stand: make them absolute before."""
    a, b = ({k: v for k, v in tables(x).items() if k != "lock"} for x in (then, now))
    return differences(a, b)


def of_locks(then: Lock, now: Lock) -> list[Difference]:
    """What differs in what two runs really used; an empty text is unknown and differs from nothing.

    What a lock says of the run itself, such as its result, is no part of this.
    """
    a, b = ({k: v for k, v in _used(lock).items() if v != ""} for lock in (then, now))
    known = [d for d in differences(a, b) if d.then is not None and d.now is not None]
    return [*known, *_of_datasets(then.dataset, now.dataset)]


def of_changes(then: Lock, now: Lock) -> list[Difference]:
    """What was changed on the way of only one of two runs."""
    what = "changed on the way"
    return [
        *(Difference(what, line, None) for line in then.changed if line not in now.changed),
        *(Difference(what, None, line) for line in now.changed if line not in then.changed),
    ]


def promise(then: Lock, now: Lock, found: Sequence[Difference]) -> tuple[bool, str]:
    """Whether a replay gives the same bytes, and a line that says why; `found` is what differs."""
    if found:
        some = "one thing differs" if len(found) == 1 else f"{len(found)} things differ"
        return False, f"same bytes promised: no, {some} from the lock"
    if changed := (*then.changed, *now.changed):
        return False, f"same bytes promised: no, changed on the way: {'; '.join(changed)}"
    unsure = next((lock for lock in (then, now) if lock.determinism != "bytes"), None)
    if unsure is not None:
        return False, f"same bytes promised: no, {unsure.why or 'the lock does not say why'}"
    return True, f"same bytes promised: yes, {now.why or 'nothing differs from the lock'}"


def lines(found: Sequence[Difference], pictures: int | None = PICTURES) -> list[str]:
    """One line a difference, and a count instead of more than `pictures` about pictures."""
    about = [d for d in found if d.of_picture]
    kept = about if pictures is None else about[:pictures]
    said = [str(d) for d in (*(d for d in found if not d.of_picture), *kept)]
    more = len(about) - len(kept)
    return [*said, f"and {more} more pictures or captions"] if more else said


def settings_digest(bundle: Bundle) -> str:
    """sha256 over the settings that the result follows from.

    Names and places have no part in it, nor has what is only drawn or saved on the way. Nor have
    defaults, so that a key which a later lorakit adds changes no digest.
    """
    apart = {"schema_version", "name", "sample", "save", "lock"}
    data = bundle.model_dump(by_alias=True, exclude_defaults=True, exclude=apart)
    for name in ("model", "revision"):  # the base has a digest of its own
        data.get("base", {}).pop(name, None)
    for source in data["dataset"]["sources"]:
        source.pop("path")
    if not data.get("base"):
        data.pop("base", None)
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _flat(node: Any, path: keys.Path) -> Iterator[tuple[keys.Path, Any]]:
    if isinstance(node, Mapping):
        for name, inner in node.items():
            yield from _flat(inner, (*path, name))
    elif isinstance(node, list | tuple):
        for index, inner in enumerate(node):
            yield from _flat(inner, (*path, index))
    else:
        yield path, node


def _used(lock: Lock) -> dict[str, Any]:
    """The values of a lock that a result depends on, by their names in words."""
    return {
        "settings": lock.settings[:16],
        "lorakit": lock.lorakit,
        **lock.versions,
        "base": lock.base.digest[:16],
        "base_revision": lock.base.revision,
        "base_predicts": lock.base.prediction,
        **lock.hardware.model_dump(),
        "threads": lock.threads,
        "attention": lock.attention,
        "attention_kernel": lock.kernel,
    }


def _of_datasets(then: LockedDataset, now: LockedDataset) -> Iterator[Difference]:
    if then.digest == now.digest or not then.digest or not now.digest:
        return
    a, b = ({p.name: p for p in map(LockedPicture.read, x.pictures)} for x in (then, now))
    named = False
    for name in dict.fromkeys((*a, *b)):
        old, new = a.get(name), b.get(name)
        if old is None or new is None or old.sha256 != new.sha256:
            named = True
            pair = (old and old.sha256, new and new.sha256)
            yield Difference(f"picture {name}", *pair, of_picture=True)
        if old and new and old.caption_sha256 != new.caption_sha256:
            named = True
            pair = (old.caption_sha256, new.caption_sha256)
            yield Difference(f"caption of {name}", *pair, of_picture=True)
    if not named:
        yield Difference(
            "repeats, boxes or masks of the pictures", then.digest[:16], now.digest[:16]
        )
