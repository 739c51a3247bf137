"""What all tables of a bundle share: frozen and strict, with a docstring under each field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler

from lorakit.bundle import docstrings


class Section(BaseModel):
    """A table: a quoted number, an unknown key, nan and inf are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """With what stands under each field as its description."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        docs = docstrings.under_fields(cls)
        for name, info in cls.model_fields.items():
            if (key := info.alias or name) in properties and name in docs:
                properties[key]["description"] = docs[name]
        return schema
