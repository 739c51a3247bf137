"""What the model is told of a picture: a pure function of its captions, the settings and the place.

In this order: the whole caption may be left out, and then nothing at all is said, neither trigger
nor prefix. Else one of several captions is taken, its wildcards are chosen, its tags are dropped
and brought into another order, and prefix, trigger and suffix are put around it. A trigger that the
caption does not hold is put in last, so it is never dropped and never moves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorakit.bundle.models import Captions
from lorakit.dataset import wildcards
from lorakit.dataset.captions import Counter, folded, holds, with_trigger
from lorakit.dataset.chance import Chance


def word(
    texts: Sequence[str], settings: Captions, trigger: str, seed: int, epoch: int, sample: int
) -> str:
    """What the model is told of one picture in one epoch.

    `texts` are its captions, none where it has none; `sample` is its index among the pictures of an
    epoch. With default settings and one caption it is the caption with its trigger.
    """

    def chance(purpose: str) -> Chance:
        return Chance(seed, purpose, epoch, sample)

    if settings.drop and chance("caption drop").share() < settings.drop:
        return ""
    text = texts[chance("caption choice").below(len(texts))] if len(texts) > 1 else "".join(texts)
    if settings.wildcards:
        drawn = chance("caption wildcards")
        text = folded(wildcards.expand(text, lambda options: options[drawn.below(len(options))]))
    if settings.shuffle or settings.drop_tags:
        text = _mixed(text, settings, chance("caption drop tags"), chance("caption order"))
    return around(text, settings, trigger)


def whole(text: str, settings: Captions, trigger: str) -> str:
    """One caption as it is told at its longest: nothing dropped or moved, each wildcard long."""
    if settings.wildcards:
        text = folded(wildcards.expand(text, lambda options: max(options, key=len)))
    return around(text, settings, trigger)


def tokens(
    counter: Counter | None, texts: Sequence[str], settings: Captions, trigger: str
) -> int | None:
    """Tokens of the longest that is told of a picture; None where nothing can be counted."""
    if counter is None:
        return None
    return max(counter.count(whole(text, settings, trigger)) for text in texts or ("",))


def varies(settings: Captions, texts: Sequence[str]) -> bool:
    """Whether what is told of a picture with these captions changes between epochs."""
    if 0 < settings.drop < 1:
        return True
    if settings.drop == 1:
        return False
    if len(set(texts)) > 1:
        return True
    if settings.wildcards and any(map(wildcards.has_choice, texts)):
        return True
    free = max((len(tags(t, settings.separator)) for t in texts), default=0) - settings.keep
    return (settings.drop_tags > 0 and free > 0) or (settings.shuffle and free > 1)


def tags(text: str, separator: str) -> list[str]:
    """The tags of a caption, without white space around them; empty ones are none."""
    return [tag for part in text.split(separator.strip() or separator) if (tag := part.strip())]


def around(text: str, settings: Captions, trigger: str) -> str:
    """A caption between prefix and suffix, with the trigger before it if it is not said already."""
    prefix, suffix = folded(settings.prefix), folded(settings.suffix)
    if not holds(f"{prefix} {text} {suffix}", folded(trigger)):
        text = with_trigger(text, trigger)
    said = " ".join(part for part in (prefix, text) if part)
    space = " " if said and suffix and suffix[0] not in ",.;:!?" else ""
    return f"{said}{space}{suffix}"


def _mixed(text: str, settings: Captions, drops: Chance, moves: Chance) -> str:
    """The tags behind those that are kept, some left out, in another order."""
    every, keep = tags(text, settings.separator), settings.keep
    rest = [tag for tag in every[keep:] if drops.share() >= settings.drop_tags]
    if settings.shuffle:
        rest = [rest[at] for at in moves.order(len(rest))]
    return _between(text, settings.separator).join(every[:keep] + rest)


def _between(text: str, separator: str) -> str:
    """What stands between the tags of this text: its first separator, with the spaces around it."""
    found = re.search(rf" *{re.escape(separator.strip())} *" if separator.strip() else " ", text)
    return found[0] if found else separator
