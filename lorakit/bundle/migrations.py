"""Reads older formats: each step is a pure function from one schema's tables to the next one's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lorakit.bundle.models import SCHEMA
from lorakit.bundle.problems import Problem

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Tables of schema n as those of schema n + 1. It may change what it is given."""

MIGRATIONS: dict[int, Migration] = {}
"""By the schema that each one reads. Schema 1 is the first, so there are none yet."""


def migrate(
    data: dict[str, Any], chain: Mapping[int, Migration] = MIGRATIONS
) -> tuple[dict[str, Any], list[Problem]]:
    """A file's tables in the present schema, with a warning that says so where they were older.

    What the chain does not reach is returned as it is, for the check of the schema to name.
    """
    old = version = data.get("schema")
    while type(version) is int and version < SCHEMA and version in chain:
        version += 1
        data = {**chain[version - 1](data), "schema": version}
    if version == old:
        return data, []
    note = Problem(
        where="schema",
        what=f"The file is of schema {old}, and was read as {version}.",
        fix="The file stays as it is; what lorakit writes from it is of the new schema.",
        severity="warning",
    )
    return data, [note]
