"""Going on with a run: from which step, and with which of its settings changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lorakit.errors import LorakitError
from lorakit.runs.directory import Run

if TYPE_CHECKING:
    from lorakit.bundle.diff import Difference
    from lorakit.bundle.models import Bundle

MAY_CHANGE = re.compile(
    r"train\.steps|sample\..*|save\..*|memory\..*|dataset\.sources\[\d+\]\.path|base\.model"
)
"""What a run that goes on may have changed: its length, what is drawn and kept, what is traded for
memory, and where its pictures and its base lie now."""

BY_NAME = re.compile(
    r"train\.(learning_rate|schedule|warmup_steps|optimizer_options\..*|clip_norm|precision)"
    r"|loss\..*"
)
"""What may be changed besides, where it is asked for by name: the steps to come are other ones
then, but weights, the optimizer's state and counters mean what they meant."""


def adopt(run: Run, wanted: Bundle, settings: Sequence[str], after: int) -> list[str]:
    """Put the settings of `wanted` that may change into the run's bundle; returns what to say.

    `settings` are the `--set KEY=VALUE` that asked for some by name; the run goes on after step
    `after`, 0: it begins again. What makes the rest of the run another than a straight one's is
    written into its lock. Raises LorakitError where others differ, and then nothing has been
    changed.
    """
    from lorakit.bundle.diff import of_bundles, settings_digest
    from lorakit.bundle.edit import edit
    from lorakit.bundle.lock import with_lock
    from lorakit.bundle.read import parse, read
    from lorakit.bundle.syntax import read_text
    from lorakit.bundle.write import replace

    before = read(run.bundle)
    found = [d for d in of_bundles(before, wanted) if d.what != "name"]
    named = [setting.partition("=")[0].strip() for setting in settings]
    _refuse(run, [d for d in found if not MAY_CHANGE.fullmatch(d.what)], named)
    if not found:
        return []
    text = read_text(run.bundle)
    # A list of texts is one value.
    for key in dict.fromkeys(re.sub(r"(prompts)\[\d+\]$", r"\1", d.what) for d in found):
        text = edit(text, key, _value(wanted, key))
    bent = [str(d) for d in found if after and _bends(d, wanted)]
    lock = before.lock
    if lock is not None and lock.settings == settings_digest(before):
        changed = (*lock.changed, *(f"{line}, after step {after}" for line in bent))
        update = {"settings": settings_digest(wanted), "changed": changed}
        text = with_lock(text, lock.model_copy(update=update))
    replace(run.bundle, text, lambda again: parse(again) is not None)
    said = [str(d) for d in found]
    if bent:
        said.append(f"from step {after + 1} on it differs from a straight run: {'; '.join(bent)}")
    return said


def _refuse(run: Run, others: Sequence[Difference], named: Sequence[str]) -> None:
    """Raise LorakitError unless each was asked for by name, and may be."""
    from lorakit.bundle.values import shown

    fixed = [
        d
        for d in others
        if not BY_NAME.fullmatch(d.what) or not any(f"{d.what}.".startswith(f"{n}.") for n in named)
    ]
    if not fixed:
        return
    hint = "A run that goes on keeps them. Put them back, or begin anew without --resume."
    if free := [f"--set {d.what}={shown(d.now)}" for d in fixed if BY_NAME.fullmatch(d.what)]:
        hint += f" What may be changed on the way has to be named: {' '.join(free)}"
    raise LorakitError(
        f"{run.name} was begun with other settings: {'; '.join(map(str, fixed))}.", hint
    )


def _bends(difference: Difference, wanted: Bundle) -> bool:
    """Whether the rest of the run is another than that of a run which had it from the start."""
    if difference.what == "train.steps":
        return wanted.train.schedule in ("linear", "cosine")  # which count from the last step
    # Blocks that recompute give the same bits.
    return bool(BY_NAME.fullmatch(difference.what)) or difference.what == "memory.attention"


def _value(bundle: Bundle, key: str) -> Any:
    from lorakit.bundle import keys
    from lorakit.bundle.write import tables

    value: Any = tables(bundle)
    for part in keys.split(key):
        value = value[part]
    return value
