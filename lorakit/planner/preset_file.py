"""What a preset's file may say: some tables of a bundle, and the machines that they are for."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lorakit.bundle.models import (
    SCHEMA,
    Adapter,
    Base,
    Loss,
    Memory,
    Sample,
    Save,
    Shape,
    Train,
)
from lorakit.bundle.section import Section


class For(Section):
    """What the preset is for."""

    family: Literal["any", "sd1", "sd2", "sdxl"] = "any"
    """Architecture of the base model."""

    purpose: Literal["usual", "goal", "benchmark"] = "usual"
    """usual: proposed where it suits base and machine. goal: for a kind of picture, chosen by name,
    and laid over the family's standard. benchmark: for comparing machines, chosen by name."""

    min_memory_gib: Annotated[float, Field(ge=0, le=4096)] = 0.0
    """Free memory that training wants, in GiB: of the card, or of the machine without one."""

    devices: Annotated[tuple[Literal["cpu", "cuda", "rocm"], ...], Field(strict=False)] = ()
    """What it may run on. None: anything."""


class PresetFile(Section):
    """A partial bundle to share."""

    noun: ClassVar[str] = "preset"

    schema_version: Annotated[Literal[1], Field(alias="schema")] = SCHEMA
    """Version of this format, which is the bundle's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,79}$")]
    """What it is called for by; the name of its file, too."""

    title: Annotated[str, Field(min_length=1)]
    """A few words."""

    description: str = ""
    """A sentence or two."""

    extends: str = ""
    """Name of a shipped preset: its settings, with those of this file over them; and its [for],
    where this file has none."""

    for_: Annotated[For, Field(alias="for")] = For()

    base: Base = Base()
    dataset: Shape = Shape()
    adapter: Adapter = Adapter()
    train: Train = Train()
    loss: Loss = Loss()
    memory: Memory = Memory()
    sample: Sample = Sample()
    save: Save = Save()


HEAD = ("schema", "name", "title", "description", "extends", "for")
"""The keys that are about the preset; the others are settings."""
