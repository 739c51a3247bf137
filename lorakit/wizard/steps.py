"""The steps of the wizard in their order, and the one that a problem belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from lorakit.bundle import schema
from lorakit.bundle.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One screen: one idea, one question."""

    name: str
    title: str
    """One word, for the line that shows where one is."""
    question: str
    about: str
    """What the step is for, in a few sentences."""
    keys: tuple[str, ...] = ()
    """Keys of the bundle that it asks for."""

    @property
    def help(self) -> str:
        """The step in words, with the documentation of each key it asks for."""
        docs = [doc for key in self.keys if (doc := schema.find(key))]
        return "\n\n".join([self.about, *(f"{doc.name}: {doc.doc}" for doc in docs)])


STEPS: tuple[Step, ...] = (
    Step(
        name="machine",
        title="Machine",
        question="This is what training has to work with.",
        about="Nothing to answer here. The card with the most free memory is used; without a "
        "card that PyTorch can use, the CPU is. A warning says what is wrong and how to cure it.",
    ),
    Step(
        name="base",
        title="Base",
        question="Which model is the LoRA for?",
        about="A LoRA works with the base it was trained on and its relatives. What the folder "
        "says about itself is shown below; no weights are read yet.",
        keys=("base.model", "base.family"),
    ),
    Step(
        name="pictures",
        title="Pictures",
        question="Which pictures should it learn?",
        about="A folder of pictures, looked into with all folders below it. A caption is a text "
        "file with the name of its picture: dog.jpg and dog.txt. Every picture is read once now, "
        "so that a damaged one is found before training and not in the middle of it.",
        keys=("dataset.sources[].path", "dataset.sources[].trigger"),
    ),
    Step(
        name="settings",
        title="Settings",
        question="These settings suit machine, base and pictures. Change what you like.",
        about="Each value has its reason beside it. A value that you change stays yours, whatever "
        "is recommended later; r takes the recommended one back. The preset is where the "
        "recommendations start from.",
    ),
    Step(
        name="review",
        title="Review",
        question="Is this what you want?",
        about="Errors have to be mended before training; warnings need not be. Save writes the "
        "bundle, a TOML file that can be trained, shared and repeated. Train starts at once; "
        "training runs in a process of its own and goes on when the connection drops.",
    ),
)

NAMES: tuple[str, ...] = tuple(step.name for step in STEPS)

_PICTURES = ("dataset.sources", "dataset")
"""Keys that are settled by choosing folders."""


def step_of(problem: Problem) -> str:
    """The name of the step at which a problem can be mended."""
    where = problem.where
    if not where:
        return "machine"
    if where.startswith("base."):
        return "base"
    if where in _PICTURES or where.startswith("dataset.sources["):
        return "pictures"
    return "settings" if schema.find(where) else "pictures"  # else it names a file
