"""How far apart the results of two runs are: their adapter files and their losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lorakit.bundle.lock import Lock
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.directory import Run
from lorakit.runs.events import Event, Failed, Finished, Resumed, Stepped, Tail
from lorakit.runs.words import clean, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What differs between the tensors of two adapter files."""

    tensors: int
    """In both, with the same shape."""
    differing: int
    """Of those, with another number in them."""
    alone: int
    """In one of the files only, or of another shape in the other."""
    largest: float
    """Largest absolute difference of two numbers."""
    mean: float
    """Mean absolute difference over all numbers of the tensors in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What differs between the losses of two runs."""

    steps: int
    """That both have."""
    first: int | None
    """The first step that differs, None where none does."""
    largest: float
    mean: float
    """Absolute differences, over the steps where both losses are finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out of a run."""

    digest: str
    """Empty: it is not done."""
    adapter: Path | None = None
    """The file in kohya's layout, where it is here."""
    losses: dict[int, float | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Whether two results are the same, and how far apart they are as far as that is known."""

    then: str
    now: str
    """Digests; empty for a run that is not done."""
    apart: Apart | None = None
    curves: Curves | None = None

    @property
    def same(self) -> bool | None:
        """None: one of the two has no result."""
        return self.then == self.now if self.then and self.now else None

    def lines(self) -> list[str]:
        """In words."""
        if self.same is None:
            which = " and ".join(
                name for name, it in (("first", self.then), ("second", self.now)) if not it
            )
            return [f"no result to compare: the {which} is not done", *self._of_losses()]
        if self.same:
            return [f"the same LoRA: digest {self.now}", *self._of_losses()]
        return [
            f"another LoRA: digest {self.then} then, {self.now} now",
            *self._of_tensors(),
            *self._of_losses(),
        ]

    def _of_tensors(self) -> list[str]:
        if self.apart is None:
            return ["  tensors  not compared: the file of then is not here"]
        apart = self.apart
        alone = f"; {apart.alone} in one file only" if apart.alone else ""
        return [
            f"  tensors  {apart.differing} of {apart.tensors} differ{alone}; "
            f"largest difference {apart.largest:.2e}, mean {apart.mean:.2e}"
        ]

    def _of_losses(self) -> list[str]:
        if self.curves is None:
            return []
        curves = self.curves
        compared = f"  losses   {plural(curves.steps, 'step')} compared, "
        if curves.first is None:
            return [compared + "all equal"]
        return [
            f"{compared}the first that differs is {curves.first}; "
            f"largest difference {curves.largest:.2e}, mean {curves.mean:.2e}"
        ]


def tensors(then: Path, now: Path) -> Apart:
    """Compare two safetensors files, a tensor at a time. Raises LorakitError (code DATA)."""
    import numpy as np
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(then, framework="np") as a, safe_open(now, framework="np") as b:
            left, right = set(a.keys()), set(b.keys())
            shared = differing = numbers = 0
            largest = total = 0.0
            for key in sorted(left & right):
                old, new = a.get_tensor(key), b.get_tensor(key)
                if old.shape != new.shape:
                    continue
                shared += 1
                gap = np.abs(old.astype(np.float64) - new.astype(np.float64))
                differing += not np.array_equal(old, new)
                numbers += gap.size
                total += float(gap.sum())
                largest = max(largest, float(gap.max(initial=0.0)))
    except (OSError, SafetensorError, TypeError) as error:
        raise LorakitError(
            f"{clean(str(then))} and {clean(str(now))} cannot be compared: {error}",
            "One of them is damaged, or not written by lorakit.",
            ExitCode.DATA,
        ) from error
    return Apart(
        tensors=shared,
        differing=differing,
        alone=len(left | right) - shared,
        largest=largest,
        mean=total / numbers if numbers else 0.0,
    )


def losses(events: Iterable[Event]) -> dict[int, float | None]:
    """The loss of each step, None where it was not finite. What a resume went back over is gone."""
    found: dict[int, float | None] = {}
    for event in events:
        if isinstance(event, Resumed):
            found = {step: loss for step, loss in found.items() if step <= event.step}
        elif isinstance(event, Stepped):
            found.update(enumerate(event.losses, event.step - len(event.losses) + 1))
    return found


def curves(then: dict[int, float | None], now: dict[int, float | None]) -> Curves:
    """Compare the losses of the steps that both have."""
    shared = sorted(then.keys() & now.keys())
    pairs = ((then[step], now[step]) for step in shared)
    gaps = [abs(a - b) for a, b in pairs if a is not None and b is not None]
    return Curves(
        steps=len(shared),
        first=next((step for step in shared if then[step] != now[step]), None),
        largest=max(gaps, default=0.0),
        mean=sum(gaps) / len(gaps) if gaps else 0.0,
    )


def result_of(run: Run) -> Result:
    """What came out of a run so far, from its events."""
    events = list(Tail(run.events).read())
    last = next((e for e in reversed(events) if isinstance(e, Finished | Failed | Resumed)), None)
    if not isinstance(last, Finished) or last.outcome != "done":
        return Result(digest="", losses=losses(events))
    named = (n for n in last.files if n.endswith(".safetensors") and ".diffusers." not in n)
    adapter = next((run.path / name for name in named), None)
    return Result(
        digest=last.digest,
        adapter=adapter if adapter and adapter.is_file() else None,
        losses=losses(events),
    )


def result_in(lock: Lock | None) -> Result:
    """What a lock says of a result whose run is not here."""
    return Result(digest=lock.result.digest if lock and lock.result else "")


def results(then: Result, now: Result) -> Comparison:
    """Compare two results. Raises LorakitError (code DATA) for a damaged file."""
    found = Comparison(then=then.digest, now=now.digest)
    if found.same is False and then.adapter and now.adapter:
        found = replace(found, apart=tensors(then.adapter, now.adapter))
    if then.losses is not None and now.losses is not None:
        found = replace(found, curves=curves(then.losses, now.losses))
    return found
