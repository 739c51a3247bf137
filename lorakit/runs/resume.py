"""Going on with a run: from which step, and with which of its settings changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lorakit.errors import LorakitError
from lorakit.runs.directory import Run

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle

MAY_CHANGE = re.compile(
    r"train\.steps|sample\..*|save\..*|memory\..*|dataset\.sources\[\d+\]\.path|base\.model"
)
"""What a run that goes on may have changed: its length, what is drawn and kept, what is traded for
memory, and where its pictures and its base lie now."""


def adopt(run: Run, wanted: Bundle) -> list[str]:
    """Put the settings of `wanted` that may change into the run's bundle; returns what changed.

    Raises LorakitError where others differ, and then nothing has been changed.
    """
    from lorakit.bundle import keys, syntax
    from lorakit.bundle.diff import of_bundles
    from lorakit.bundle.edit import edit
    from lorakit.bundle.read import parse, read
    from lorakit.bundle.write import replace, tables

    found = [d for d in of_bundles(read(run.bundle), wanted) if d.what != "name"]
    fixed = [str(d) for d in found if not MAY_CHANGE.fullmatch(d.what)]
    if fixed:
        raise LorakitError(
            f"{run.name} was begun with other settings: {'; '.join(fixed)}.",
            "A run that goes on keeps them. Put them back, or begin anew without --resume.",
        )
    text, data = syntax.read_text(run.bundle), tables(wanted)
    # A list of texts is one value.
    for key in dict.fromkeys(re.sub(r"(prompts)\[\d+\]$", r"\1", d.what) for d in found):
        value: Any = data
        for part in keys.split(key):
            value = value[part]
        text = edit(text, key, value)
    if found:
        replace(run.bundle, text, lambda again: parse(again) is not None)
    return [str(d) for d in found]
