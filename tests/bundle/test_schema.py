from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from lorakit.bundle.read import parse
from lorakit.bundle.schema import documents, fields, find, json_schema

FULL = (Path(__file__).parent.parent / "data/bundles/schema-1.toml").read_text()


def flat(data: Any, key: str = "") -> set[str]:
    if isinstance(data, dict):
        return set().union(*(flat(v, f"{key}.{k}" if key else k) for k, v in data.items()))
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return set().union(*(flat(entry, f"{key}[]") for entry in data))
    return {key}


def test_every_key_of_a_written_bundle_but_the_lock_is_documented_and_no_other() -> None:
    keys = flat(tomllib.loads(FULL))
    assert {doc.key for doc in fields()} == {k for k in keys if not k.startswith("lock.")}


def test_a_document_says_all_there_is_to_know() -> None:
    for doc in documents().values():
        assert doc.key in ("", "schema") or doc.doc.endswith("."), doc.key
    rate = find("train.learning_rate")
    assert rate is not None
    assert (rate.kind, rate.default, rate.allowed) == ("number", 1e-4, "above 0, at most 10")
    path = find("dataset.sources[3].path")
    assert path is not None
    assert (path.required, path.kind, path.default) == (True, "text", None)
    resolution = find("dataset.resolution")
    assert resolution is not None
    assert (resolution.minimum, resolution.maximum, resolution.step) == (32, 4096, 8)
    optimizer = find("train.optimizer")
    assert optimizer is not None
    assert optimizer.choices == ("adamw", "adafactor")


def test_defaults_are_those_that_a_bundle_takes() -> None:
    bundle: Any = parse("schema = 1\nname = 'x'\n[[dataset.sources]]\npath = 'p'")
    for doc in fields():
        if not doc.required and "[]" not in doc.key:
            node = bundle
            for part in doc.key.split("."):
                node = getattr(node, part)
            assert node == doc.default, doc.key


def test_the_json_schema_describes_every_key() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["schema", "name", "dataset"]
    for definition in (schema, *schema["$defs"].values()):
        assert definition["additionalProperties"] is False
        for name, entry in definition["properties"].items():
            assert "description" in entry or "$ref" in entry, name
            assert "\n" not in entry.get("description", "")
    train = schema["$defs"]["Train"]["properties"]
    assert train["learning_rate"]["exclusiveMinimum"] == 0
    assert train["optimizer"]["enum"] == ["adamw", "adafactor"]
    assert schema["$defs"]["Memory"]["properties"]["checkpointing"]["anyOf"] == [
        {"enum": ["none", "full"], "type": "string"},
        {"maximum": 999, "minimum": 1, "type": "integer"},
    ]
    assert set(schema["properties"]) == set(tomllib.loads(FULL))
    assert "null" not in json.dumps(schema)
    assert schema["properties"]["lock"]["$ref"] == "#/$defs/Lock"
