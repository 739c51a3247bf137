"""The command `lorakit dataset` and its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class FamilyName(StrEnum):
    """As in a bundle, which would take a fifth of a second to load."""

    sd1 = "sd1"
    sd2 = "sd2"
    sdxl = "sdxl"


def dataset(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Folders of pictures.", show_default=False),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The folders of this bundle.", show_default=False),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="ID|PATH", help="The model they are for: its sizes.", show_default=False
        ),
    ] = None,
    family: Annotated[
        FamilyName | None,
        typer.Option(help="Without a base: any of this family. Default: sd1.", show_default=False),
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=32, max=4096, help="Default: that of the base.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with all of it.", show_default=False),
    ] = None,
) -> None:
    """Look at pictures and captions: what can be used, and what is wrong. Changes nothing.

    A folder named 40_ohwx man is repeated 40 times. The exit code is 5 where there are errors.
    """
    from lorakit.cli.dataset import dataset as command

    named = family.value if family else None
    raise typer.Exit(command(paths or [], bundle, base, named, resolution, html, json))
