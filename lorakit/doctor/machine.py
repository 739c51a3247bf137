"""How machine, driver and PyTorch go together: a line for each thing that can be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lorakit.bundle.problems import Problem
from lorakit.doctor.checks import Check, bad, doubtful, good, of_problem
from lorakit.hardware import findings
from lorakit.hardware.facts import Hardware, Probe, Tried
from lorakit.hardware.kernels import OVERRIDE
from lorakit.hardware.visible import CPU, cpu_wanted
from lorakit.runs.words import UNKNOWN, clean, number

LEAST_RAM_GIB = 6.0
"""A base of SDXL in 16 bits goes through RAM on its way to a card."""

NEEDLESS = {
    "xformers": "SDPA of PyTorch is as fast on most cards",
    "bitsandbytes": "only optimizers in 8 bits need it",
    "compile": "only faster steps need it",
}
"""What lorakit does without, and why that is no loss."""


def checks(machine: Hardware, environ: Mapping[str, str]) -> list[Check]:
    """Everything about one machine; `environ` is the environment of a training there."""
    told = findings.by_topic(machine, environ)
    said = {problem.what for found in told.values() for problem in found}
    rest = tuple(f for f in machine.findings if f.what not in said)
    return [
        *_torch(machine, told["pytorch"]),
        *_driver(machine, told["driver"], rest),
        *_card(machine, told["cards"], environ),
        *_memory(machine, told["memory"]),
        *_override(machine, told["override"], environ),
        *(of_problem("allocator", f) for f in told["allocator"]),
        *_tried(machine, told["kernels"], told["trials"]),
        _ram(machine),
    ]


def _torch(machine: Hardware, found: tuple[Problem, ...]) -> Iterator[Check]:
    torch, card = machine.torch, machine.accelerator
    if torch is None:
        yield from (of_problem("pytorch", f, "bad") for f in found)
        return
    yield from (of_problem("pytorch", f) for f in found)
    if found:
        return
    built = {"cuda": f"CUDA {torch.cuda}", "rocm": f"ROCm {torch.hip}", "xpu": "Intel cards"}
    apple = "Apple's chips" if card and card.kind == "mps" else "the CPU alone"
    yield good("pytorch", f"{torch.version}, built for {built.get(torch.kind, apple)}")


def _driver(
    machine: Hardware, found: tuple[Problem, ...], rest: tuple[Problem, ...]
) -> Iterator[Check]:
    """`rest` is what the driver said, and whatever else nobody tells."""
    yield from (of_problem("driver", f) for f in (*found, *rest))
    if machine.driver and not found:
        cuda = machine.driver_cuda or UNKNOWN
        yield good("driver", f"{machine.driver}, knows CUDA up to {cuda}")


def _card(
    machine: Hardware, found: tuple[Problem, ...], environ: Mapping[str, str]
) -> Iterator[Check]:
    card, cards = machine.accelerator, machine.accelerators
    if card is not None:
        more = f", chosen from {len(cards)}" if len(cards) > 1 else ""
        kernels = f" ({card.architecture})" if card.architecture else ""
        yield good("card", f"{card.name}{kernels}{more}")
    else:
        alone = not cards and not machine.findings
        yield doubtful(
            "card",
            f"{_why_none(machine, environ)}: training runs on the {machine.device}.",
            "pico, the base that lorakit ships, is made for this." if alone else "",
        )
    yield from (of_problem("card", f) for f in found)


def _why_none(machine: Hardware, environ: Mapping[str, str]) -> str:
    kind = machine.torch.kind if machine.torch else ""
    hidden = [a.name for a in machine.accelerators if a.kind in (kind, "mps") and not a.visible]
    if not hidden:
        return "None that can be used"
    names = (CPU,) if cpu_wanted(environ) else findings.CHOOSING.get(kind, ())
    by = " and ".join(f"{name}={environ[name]}" for name in names if name in environ)
    are = "is" if len(hidden) == 1 else "are"
    return f"None in sight, {' and '.join(hidden)} {are} hidden{f' by {by}' if by else ''}"


def _memory(machine: Hardware, found: tuple[Problem, ...]) -> Iterator[Check]:
    card = machine.accelerator
    yield from (of_problem("memory", f) for f in found)
    if card is None or found:
        return
    free, total = number(card.memory_free_gib), number(card.memory_total_gib, ".1f", "GiB")
    shared = ", shared with the system" if card.unified else ""
    holders = ", ".join(map(findings.holder, card.processes))
    held = f"; held by {holders}" if holders else ""
    yield good("memory", f"{free} of {total} free{shared}{held}")


def _override(
    machine: Hardware, found: tuple[Problem, ...], environ: Mapping[str, str]
) -> Iterator[Check]:
    yield from (of_problem("override", f) for f in found)
    card, value = machine.accelerator, environ.get(OVERRIDE)
    if card is not None and card.kind == "rocm" and value is not None and not found:
        yield good("override", f"{OVERRIDE}={value} chooses the kernels for {card.architecture}")


def _tried(
    machine: Hardware, kernels: tuple[Problem, ...], trials: tuple[Problem, ...]
) -> Iterator[Check]:
    """What PyTorch itself said when it was tried."""
    probe, ours = machine.probe, machine.tried
    if probe is None:
        yield from (of_problem("kernels", finding, "bad") for finding in kernels)
        if machine.torch is not None:
            yield doubtful("tried", "PyTorch was not tried.", "lorakit doctor without --no-probe")
        return
    works = any(not device.failure for device in probe.devices)
    broken = ours.name if ours is not None and ours.failure else ""
    for finding in (*kernels, *trials):
        stuck = not works or (broken and broken in finding.what)
        yield of_problem("kernels", finding, "bad" if stuck else "doubtful")
    if ours is not None and broken and not any(broken in f.what for f in (*kernels, *trials)):
        what = f"{broken} failed its first operation: {ours.failure}."
        yield bad("kernels", what, "Update its driver and PyTorch, or choose another card.")
    if ours is not None and ours.failure:
        yield from _instead(probe, ours)
    if ours is None or ours.failure:
        return
    if ours.architecture and not kernels and probe.architectures:
        yield good("kernels", f"PyTorch runs on {ours.architecture}")
    yield from _abilities(ours)


def _instead(probe: Probe, broken: Tried) -> Iterator[Check]:
    """Another card that works, where the one that has most memory does not."""
    name = {"cuda": "CUDA_VISIBLE_DEVICES", "rocm": "ROCR_VISIBLE_DEVICES"}.get(broken.kind)
    for other in probe.devices:
        if name and other.kind == broken.kind and other.uuid and not other.failure:
            yield doubtful("instead", f"{other.name} works.", f"export {name}={other.uuid}")
            return


def _abilities(device: Tried) -> Iterator[Check]:
    works = ", ".join(device.precisions)
    missing = [p for p in ("fp32", "fp16", "bf16") if p not in device.precisions]
    if "fp32" in missing:
        yield bad("precision", f"fp32 came out wrong on {device.name}; {works or 'nothing'} works.")
    elif missing and device.kind != "cpu":
        instead = "fp16" if "fp16" in device.precisions else "fp32"
        what = f"{works}; no {' and no '.join(missing)}, and {instead} takes its place"
        yield good("precision", what)
    else:
        yield good("precision", works)
    if device.attention == "math" and device.kind in ("cuda", "rocm", "xpu"):
        yield doubtful(
            "attention",
            "No fused kernel works: attention is slower and takes memory with the square of the "
            "picture's area.",
            "Install a newer PyTorch for this card.",
        )
    elif device.attention:
        yield good("attention", f"{device.attention} kernel of PyTorch")
    for name, why in NEEDLESS.items():
        said = device.modules.get(name)
        if said is None and (name == "compile" or device.kind not in ("cuda", "rocm")):
            continue
        if said is None:
            yield good(name, f"not installed, and not needed: {why}")
        elif said:
            what = f"It does not work here: {_short(said)}"
            yield doubtful(name, what, f"Do without it: {why}.")
        else:
            yield good(name, "works")


def _ram(machine: Hardware) -> Check:
    free, total = machine.ram_free_gib, machine.ram_total_gib
    what = f"{number(free)} of {number(total, '.1f', 'GiB')} free"
    if free is not None and free < LEAST_RAM_GIB:
        cure = "End other programs"
        if "WSL" in machine.system:
            cure += ", or give WSL more: memory= in %UserProfile%\\.wslconfig"
        return doubtful("ram", f"{what}; a base of SDXL takes {LEAST_RAM_GIB:.0f}.", f"{cure}.")
    return good("ram", what)


def _short(text: str) -> str:
    line = clean(" ".join(text.split()))
    return line if len(line) <= 160 else f"{line[:157]}..."
