"""What a benchmark found, as a TOML file that can be shared and compared.

It holds the machine, the settings and one table a case; no path, name of a person, or number of a
card.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from lorakit import durable
from lorakit.bundle.section import Section
from lorakit.errors import LorakitError

SCHEMA: Literal[1] = 1

WHAT = "lorakit bench"
"""The value of `kind` that tells such a file from every other."""

MOST = 2**20
"""A larger rank is a damaged file's."""

_Size = Annotated[float, Field(ge=0)]

_HEAD = "# What lorakit bench measured. Compare: lorakit bench compare THIS OTHER\n"


class _Rounded(Section):
    """Floats have five digits: more than a repetition would give again."""

    @model_validator(mode="before")
    @classmethod
    def _round(cls, given: Any) -> Any:
        return {k: _rounded(v) for k, v in given.items()} if isinstance(given, dict) else given


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_rounded, value)) if all(isinstance(v, float) for v in value) else value
    return float(f"{value:.5g}") if isinstance(value, float) else value


class Machine(_Rounded):
    """What was measured on. What it does not have or tell is empty or absent."""

    device: str
    """Such as `NVIDIA H200`, or `CPU, 2 threads`."""
    kind: str
    """cpu, cuda, rocm, mps or xpu."""
    architecture: str = ""
    """Of the card, such as sm_90."""
    memory_gib: float | None = None
    """Of the card."""
    power_limit_w: float | None = None
    driver: str = ""
    """Version of the card's driver."""
    system: str = ""
    cpu: str = ""
    """Name of the processor."""
    threads: int
    """Threads that PyTorch used."""
    ram_gib: float | None = None
    versions: dict[str, str]
    """Of lorakit, torch and other libraries."""


class Settings(Section):
    """What all cases share."""

    base: str
    """pico, sd1, sd2, sdxl, a Hub id, or the name of a folder."""
    family: str
    weights: Literal["random", "real"]
    resolution: int
    batch_size: int
    precision: str
    targets: str
    optimizer: str
    length: Literal["quick", "full"]
    """quick: each case until its speed is level, or its share of three minutes is used up. full:
    520 steps each, as in the published benchmark that this repeats."""


class Case(_Rounded):
    """One rank with one attention kernel."""

    rank: Annotated[int, Field(ge=1, le=MOST)]
    attention: Annotated[str, Field(max_length=40)]
    checkpointing: str = "none"
    """full where the case did not fit without it."""
    step_seconds: Annotated[float, Field(gt=0)] | None = None
    """Median of the last windows."""
    spread_percent: _Size | None = None
    """How far apart those windows lay."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Measured, after the warm-up."""
    level: bool | None = None
    """Whether the speed had become level when the time was up."""
    peak_gib: _Size | None = None
    """Most memory of tensors at once; `memory` says how it is counted."""
    reserved_gib: _Size | None = None
    """Most that PyTorch held of the card, cuda and rocm only."""
    predicted_peak_gib: _Size | None = None
    predicted_step_seconds: Annotated[tuple[float, ...], Field(strict=False)] = ()
    """Lowest and highest; empty: nobody predicted it."""
    failure: str = ""
    """Why there is no number, in a sentence."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from the other cases of a file."""
        return self.rank, self.attention

    @property
    def rate(self) -> float | None:
        """Steps a second."""
        return 1 / self.step_seconds if self.step_seconds else None

    @property
    def predicted_rate(self) -> float | None:
        """Steps a second, in the middle of what was predicted."""
        if len(self.predicted_step_seconds) != 2:
            return None
        low, high = self.predicted_step_seconds
        return (low * high) ** -0.5 if low > 0 and high > 0 else None


class Bench(Section):
    """A whole file."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = SCHEMA
    kind: Literal["lorakit bench"] = "lorakit bench"
    date: str
    """Day on which it was begun, such as 2026-11-30."""
    time: str = ""
    """Which time `step_seconds` is, in words. Empty: that of a clock on the wall."""
    memory: str = ""
    """How `peak_gib` is counted, in words."""
    machine: Machine
    settings: Settings
    cases: Annotated[tuple[Case, ...], Field(strict=False)] = ()

    def with_case(self, case: Case) -> Bench:
        """The same with one more case, in place of an older one; sorted."""
        kept = [c for c in self.cases if c.key != case.key]
        order = sorted([*kept, case], key=lambda c: (c.attention, c.rank))
        return self.model_copy(update={"cases": tuple(order)})

    def case(self, key: tuple[int, str]) -> Case | None:
        """The case of a rank and an attention kernel."""
        return next((c for c in self.cases if c.key == key), None)


def write(bench: Bench, path: Path) -> None:
    """Write a file in one go, so that it is complete whenever the benchmark is broken off."""
    from lorakit.bundle.document import document

    plain = bench.model_dump(by_alias=True, exclude_none=True)
    plain["cases"] = [_short(case) for case in plain["cases"]]
    if not plain["cases"]:
        del plain["cases"]
    try:
        durable.write(path, (_HEAD + document(plain)).encode())
    except OSError as error:
        raise LorakitError(f"{path} cannot be written: {error.strerror or error}.") from error


def _short(case: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in case.items() if v not in ("", ())}


def read(path: Path) -> Bench:
    """The results in a file. Raises LorakitError where it holds none."""
    again = "lorakit bench writes such files."
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise LorakitError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise LorakitError(f"{path} holds no benchmark: it is no TOML file.", again) from None
    except RecursionError:
        what = f"{path} holds no benchmark: its TOML is nested too deep."
        raise LorakitError(what, again) from None
    if raw.get("kind") != WHAT:
        raise LorakitError(f'{path} holds no benchmark: it does not say kind = "{WHAT}".', again)
    if raw.get("schema") != SCHEMA:
        raise LorakitError(
            f"{path} has schema {raw.get('schema')!r}, and this lorakit reads {SCHEMA}.",
            "Use the lorakit that wrote it, or measure again.",
        )
    try:
        return Bench.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        said = first["msg"][:1].lower() + first["msg"][1:]
        raise LorakitError(f"{path} has a wrong {key}: {said}.", again) from None


class Difference(NamedTuple):
    """One fact that two files do not share; empty where one does not have it."""

    name: str
    one: str
    other: str


def differences(one: Bench, other: Bench) -> Iterator[Difference]:
    """What differs between two benchmarks but for their results: settings first, then machines."""
    for part in ("settings", "machine"):
        a, b = (_flat(getattr(bench, part).model_dump()) for bench in (one, other))
        for name in dict.fromkeys([*a, *b]):
            if a.get(name, "") != b.get(name, ""):
                yield Difference(name, a.get(name, ""), b.get(name, ""))
    if one.time != other.time:
        yield Difference("time is", one.time, other.time)
    if one.memory != other.memory:
        yield Difference("memory is", one.memory, other.memory)


def _flat(table: dict[str, Any]) -> dict[str, str]:
    """A table as texts; the versions stand for themselves."""
    versions = table.pop("versions", {})
    texts = {_words(name): "" if v is None else _text(v) for name, v in table.items()}
    return {**texts, **{name: str(version) for name, version in versions.items()}}


def _words(name: str) -> str:
    """A key with its unit, as people write it."""
    for ending, unit in (("_gib", " GiB"), ("_w", " W")):
        if name.endswith(ending):
            name = name.removesuffix(ending) + unit
    return name.replace("_", " ")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def ratio(one: float | None, other: float | None) -> float | None:
    """How many times one number the other is."""
    return other / one if one and other is not None else None
