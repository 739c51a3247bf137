"""Answers on disk, so that a dropped line costs nothing: written at every step, gone at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.families.families import FAMILIES
from lorakit.wizard.answers import Answers, Folder
from lorakit.wizard.steps import NAMES

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Answers of an earlier time."""

    answers: Answers
    step: str
    """Name of the step that was open."""
    folder: Path
    """What relative paths in the answers count from."""
    saved_at: float
    """Unix time."""


def path() -> Path:
    """Where the draft lies: in `$LORAKIT_STATE`, else where the system keeps an app's state."""
    if given := os.environ.get("LORAKIT_STATE"):
        return Path(given).expanduser() / "draft.json"
    import platformdirs

    return platformdirs.user_state_path("lorakit") / "draft.json"


def save(answers: Answers, step: str, folder: Path) -> bool:
    """Keep the answers. False where the disk does not let it: no reason to stop asking."""
    data = {
        "version": VERSION,
        "saved_at": time.time(),
        "folder": str(folder),
        "step": step,
        "answers": dataclasses.asdict(answers),
    }
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        durable.write(target, f"{json.dumps(data, indent=2)}\n".encode())
    except OSError:
        return False
    return True


def load() -> Draft | None:
    """The draft that lies there; None where there is none, or none that can be read."""
    try:
        data = json.loads(path().read_text(encoding="utf-8"))
        if data["version"] != VERSION or data["step"] not in NAMES:
            return None
        return Draft(
            answers=_answers(data["answers"]),
            step=data["step"],
            folder=Path(data["folder"]),
            saved_at=float(data["saved_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove() -> None:
    """Forget the draft: its answers have become a bundle."""
    with contextlib.suppress(OSError):
        path().unlink(missing_ok=True)


def _answers(data: dict[str, Any]) -> Answers:
    """Raises TypeError for what does not look like answers."""
    folders = tuple(Folder(**folder) for folder in data.pop("folders"))
    answers = Answers(folders=folders, **data)
    texts = [answers.base, answers.revision, answers.name, answers.preset]
    texts += [text for f in folders for text in (f.path, f.trigger, f.typed)]
    if not folders or not all(isinstance(text, str) for text in texts):
        raise TypeError("not answers")
    if not isinstance(answers.changes, dict) or answers.family not in ("", *FAMILIES):
        raise TypeError("not answers")
    return answers
