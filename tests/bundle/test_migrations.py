"""A chain made for the test, from a schema 0 that never was, stands for those to come."""

from __future__ import annotations

import tomllib
from typing import Any

from bundles import SMALL

from lorakit.bundle.migrations import MIGRATIONS, migrate
from lorakit.bundle.models import SCHEMA
from lorakit.bundle.read import check

OLD = """\
schema = 0
name = "my-dog"

[train]
rate = 1e-3 # as it was called then

[[dataset.sources]]
path = "photos"
"""


def renamed(data: dict[str, Any]) -> dict[str, Any]:
    train = dict(data["train"])
    train["learning_rate"] = train.pop("rate")
    return {**data, "train": train}


def test_an_older_file_is_read_and_says_so() -> None:
    data = tomllib.loads(OLD)
    bundle, problems = check(data, text=OLD, migrations={0: renamed})
    assert bundle is not None
    assert bundle.train.learning_rate == 1e-3
    assert bundle.schema_version == SCHEMA
    (note,) = problems
    assert (note.where, note.severity, note.line) == ("schema", "warning", 1)
    assert note.what == "The file is of schema 0, and was read as 1."
    assert data == tomllib.loads(OLD)


def test_problems_have_the_lines_of_the_file_as_it_is() -> None:
    text = OLD.replace("1e-3", "-1.0").replace("path", "pth")
    bundle, problems = check(tomllib.loads(text), text=text, migrations={0: renamed})
    assert bundle is None
    assert [(p.where, p.line) for p in problems if p.severity == "error"] == [
        ("train.learning_rate", 4),  # its table: the key of this name is not in the file
        ("dataset.sources[0].pth", 8),
    ]


def test_overrides_use_the_names_of_today() -> None:
    bundle, _ = check(tomllib.loads(OLD), ["train.learning_rate=0.5"], OLD, {0: renamed})
    assert bundle is not None
    assert bundle.train.learning_rate == 0.5


def test_a_chain_is_gone_step_by_step_as_far_as_it_goes() -> None:
    def seen(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "seen": [*data.get("seen", []), data["schema"]]}

    data, notes = migrate({"schema": -2}, {-2: seen, -1: seen, 0: seen})
    assert data == {"schema": 1, "seen": [-2, -1, 0]}
    assert len(notes) == 1
    assert migrate({"schema": -2}, {-1: seen, 0: seen}) == ({"schema": -2}, [])
    assert migrate({"schema": "0"}, {0: seen}) == ({"schema": "0"}, [])


def test_a_file_of_today_is_not_touched() -> None:
    assert MIGRATIONS.keys() <= set(range(SCHEMA))
    assert check(tomllib.loads(SMALL), text=SMALL)[1] == []
    bundle, problems = check(tomllib.loads(OLD), text=OLD)
    assert bundle is None
    assert problems[0].what == "schema is 0, and the first one is 1."
