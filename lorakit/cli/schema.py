"""`lorakit schema`."""

from __future__ import annotations

from lorakit.bundle.schema import json_schema
from lorakit.cli import streams


def schema() -> int:
    """Print the JSON schema of bundles, for editors."""
    streams.out_json(json_schema())
    return 0
