"""The commands of `lorakit captions` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lorakit.dataset.edits import Change

app = typer.Typer(
    help="Change the captions of a folder of pictures. The difference is shown first, and can be"
    " taken back later.",
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folders = Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of pictures.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]
Every = Annotated[bool, typer.Option("--all", help="Show the difference of every file.")]
Lines = Annotated[
    bool, typer.Option("--lines", help="Each line of a file is a caption of its own.")
]
Separator = Annotated[str, typer.Option(metavar="TEXT", help="What stands between tags.")]


@app.command()
def count(
    folders: Folders,
    tags: Annotated[int, typer.Option(metavar="N", help="So many, the most used first.")] = 40,
    separator: Separator = ",",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print how many captions hold each tag."""
    from lorakit.cli.captions import count as command

    raise typer.Exit(command(folders, tags, separator, json))


@app.command()
def trigger(
    folders: Folders,
    words: Annotated[str, typer.Option("--words", metavar="TEXT", help="Such as ohwx dog.")],
    separator: Annotated[
        str, typer.Option(metavar="TEXT", help="What stands behind the trigger.")
    ] = ", ",
    lines: Lines = False,
    yes: Yes = False,
    every: Every = False,
) -> None:
    """Put a trigger before every caption that does not hold it."""
    from lorakit.dataset import edits

    made = edits.trigger(words, separator)
    _change(folders, f"put {words} before every caption", made, lines, yes, every)


@app.command()
def replace(
    folders: Folders,
    find: Annotated[str, typer.Option("--find", metavar="TEXT", help="What is replaced.")],
    new: Annotated[str, typer.Option("--with", metavar="TEXT", help="By what; may be empty.")],
    regex: Annotated[
        bool, typer.Option("--regex", help="A regular expression of Python; \\1 is its group 1.")
    ] = False,
    any_case: Annotated[
        bool, typer.Option("--any-case", help="Capital and small letters are the same.")
    ] = False,
    lines: Lines = False,
    yes: Yes = False,
    every: Every = False,
) -> None:
    """Replace a text in every caption."""
    from lorakit.dataset import edits

    made = edits.replace(find, new, regex=regex, any_case=any_case)
    _change(folders, f"replace {find} by {new or 'nothing'}", made, lines, yes, every)


@app.command()
def remove(
    folders: Folders,
    tag: Annotated[list[str], typer.Option("--tag", metavar="TAG", help="May be repeated.")],
    separator: Separator = ",",
    lines: Lines = False,
    yes: Yes = False,
    every: Every = False,
) -> None:
    """Leave tags out of every caption.

    A tag is found whole, in any case of letters.
    """
    from lorakit.dataset import edits

    made = edits.remove(tag, separator)
    _change(folders, f"leave out {', '.join(tag)}", made, lines, yes, every)


@app.command()
def fill(folders: Folders, yes: Yes = False, every: Every = False) -> None:
    """Caption the pictures that have none by their folder.

    A number of repeats before the name is left out: 40_ohwx man gives ohwx man.
    """
    from lorakit.cli.captions import change as command
    from lorakit.dataset import edits

    raise typer.Exit(command(folders, edits.fill, yes=yes, every=every))


@app.command()
def undo(
    folders: Folders,
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where a file was changed after that.")
    ] = False,
) -> None:
    """Take back the last change; again, the one before it."""
    from lorakit.cli.captions import undo as command

    raise typer.Exit(command(folders, yes=yes, force=force))


def _change(
    folders: list[Path], what: str, made: Change, lines: bool, yes: bool, every: bool
) -> None:
    from lorakit.cli.captions import change as command
    from lorakit.dataset import edits

    change = edits.each_line(made) if lines else made
    raise typer.Exit(
        command(folders, lambda folder: edits.plan(folder, what, change), yes=yes, every=every)
    )
