"""`--set train.steps=300`: values that replace those of a file before anything is checked."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from lorakit.bundle import keys
from lorakit.bundle.problems import Problem

_FORM = "The form is --set train.steps=300."


def apply(
    data: dict[str, Any], overrides: Sequence[str]
) -> tuple[dict[keys.Path, str], list[Problem]]:
    """Put overrides into `data`, which changes.

    Returns the values that were set, as they were typed, by place, and the problems of those that
    could not be.
    """
    typed: dict[keys.Path, str] = {}
    problems: list[Problem] = []
    for override in overrides:
        key, equals, raw = override.partition("=")
        key = key.strip()
        try:
            path = keys.split(key)
        except ValueError:
            path = ()
        if not equals or not path:
            what = "names no value" if not equals else "names no key"
            problems.append(Problem(where=key, what=f"--set {override} {what}.", fix=_FORM))
        elif path[0] == "lock":
            what = f"--set {override} changes the lock, which says what a past run used."
            problems.append(Problem(where=key, what=what, fix="Leave it out."))
        elif problem := _put(data, path, value(raw.strip())):
            problems.append(problem)
        else:
            typed[path] = raw.strip()
    return typed, problems


def value(raw: str) -> Any:
    """A TOML value; a bare word that is none counts as text."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    return parsed["value"] if len(parsed) == 1 else raw


def _put(data: dict[str, Any], path: keys.Path, given: Any) -> Problem | None:
    node: Any = data
    for n, part in enumerate(path):
        here, last = keys.join(path[:n]), n == len(path) - 1
        if isinstance(part, int):
            if not isinstance(node, list):
                return _wrong(path, f"{here} is no list")
            if part >= len(node):
                count = f"{len(node)} {'entry' if len(node) == 1 else 'entries'}"
                return _wrong(path, f"{here} has {count}, counted from 0")
        elif not isinstance(node, dict):
            many = f": write {here}[0].{part}" if isinstance(node, list) else ""
            return _wrong(path, f"{here} is {'a list' if many else 'no table'}{many}")
        if last:
            node[part] = given
        elif isinstance(part, int):
            node = node[part]
        else:
            node = node.setdefault(part, {})
    return None


def _wrong(path: keys.Path, why: str) -> Problem:
    key = keys.join(path)
    return Problem(where=key, what=f"--set {key} cannot be done: {why}.", fix=_FORM)
