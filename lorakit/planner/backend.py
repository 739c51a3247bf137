"""What the device at hand can compute with: precisions and kernels of attention."""

from __future__ import annotations

from lorakit.hardware.facts import Accelerator, Hardware


def lacks(hardware: Hardware, precision: str) -> str:
    """Why a precision is none to train in on this machine's card; empty: it can be."""
    card, seen = hardware.accelerator, hardware.tried
    if card is None:
        return ""
    if precision == "bf16" and card.native_bf16 is False and card.capability:
        major, minor = card.capability
        return (
            f"{card.name} (compute capability {major}.{minor}) has no native bf16, which needs 8.0"
        )
    if seen and seen.precisions and precision not in seen.precisions:
        return f"{card.name} computed it wrong or not at all when it was tried"
    return ""


def half(hardware: Hardware) -> str:
    """The 16 bits to train in: bf16 where the card is known to have it, else fp16; fp32 on a CPU,
    and where a card was tried and has neither."""
    card = hardware.accelerator
    if card is None:
        return "fp32"
    if not lacks(hardware, "bf16") and (card.native_bf16 or card.kind != "cuda"):
        return "bf16"
    return "fp32" if lacks(hardware, "fp16") else "fp16"


def without_xformers(hardware: Hardware, installed: bool) -> str:
    """Why xformers cannot be used on this machine; empty: it can. `installed`: whether it was
    found, which counts where nobody has tried it."""
    card, seen = hardware.accelerator, hardware.tried
    if seen is not None and "xformers" in seen.modules:
        said = seen.modules["xformers"]
        if said:
            return f"xformers does not work here ({said})"
    elif not installed:
        return "xformers is not installed"
    if card is None:
        return "xformers does not run on the CPU"
    if card.kind != "cuda":
        return f"xformers is for NVIDIA cards, and {card.name} is none"
    return ""


def is_ampere(card: Accelerator | None) -> bool:
    """Whether it is a card of NVIDIA's Ampere generation: compute capability 8.0, 8.6 or 8.7."""
    return card is not None and card.capability in ((8, 0), (8, 6), (8, 7))
