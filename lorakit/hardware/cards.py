"""How fast cards are by their data sheets, for machines on which nothing was measured.

Rates are dense: matrix products in fp32, in fp16 or bf16 with sums in fp32, and the memory's
bandwidth. What a large product and a large copy really reach is a share of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lorakit.hardware.facts import Accelerator, Speed

LAUNCH_US = 14.0
"""A small operation with what Python and autograd do around it, on the host of an unknown machine:
between a fast processor (about 9) and what published steps of one picture come to (about 22)."""

REACHED = {"cuda": 0.7, "rocm": 0.5, "mps": 0.7, "xpu": 0.5}
"""Share of the published rate that large matrix products reach."""

COPIED = 0.85
"""Share of the published bandwidth that a large copy reaches."""

Row = tuple[str, float, float, float]

CARDS: tuple[Row, ...] = (
    # name, fp32 TFLOPS, fp16 or bf16 TFLOPS, GB/s; the first that is found in a card's name counts
    (r"B200", 75, 2250, 8000),
    (r"H200", 67, 989, 4800),
    (r"H100.*(PCIe|NVL)", 51, 756, 2000),
    (r"H100|H800|GH200", 67, 989, 3350),
    (r"A100.*80GB", 19.5, 312, 2000),
    (r"A100|A800", 19.5, 312, 1555),
    (r"V100", 15.7, 125, 900),
    (r"L40S", 91.6, 362, 864),
    (r"L40", 90.5, 181, 864),
    (r"L4\b", 30.3, 121, 300),
    (r"T4\b", 8.1, 65, 320),
    (r"A10G?\b", 31.2, 125, 600),
    (r"A40\b", 37.4, 150, 696),
    (r"GB10", 31, 125, 273),
    (r"RTX PRO 6000", 125, 500, 1792),
    (r"RTX 6000 Ada", 91.1, 364, 960),
    (r"RTX 5000 Ada", 65.3, 261, 576),
    (r"RTX 4500 Ada", 39.6, 158, 432),
    (r"RTX 4000 Ada", 26.7, 107, 360),
    (r"RTX A6000", 38.7, 155, 768),
    (r"RTX A5000", 27.8, 111, 768),
    (r"RTX A4000", 19.2, 76.7, 448),
    (r"RTX 5090", 105, 210, 1792),
    (r"RTX 5080", 56, 113, 960),
    (r"RTX 5070 Ti", 44, 88, 896),
    (r"RTX 5070", 31, 62, 672),
    (r"RTX 5060", 23, 46, 448),
    (r"RTX 4090", 82.6, 165, 1008),
    (r"RTX 4080", 48.7, 97.5, 717),
    (r"RTX 4070 Ti S", 44.1, 88.2, 672),
    (r"RTX 4070 Ti", 40.1, 80.2, 504),
    (r"RTX 4070", 29.1, 58.3, 504),
    (r"RTX 4060 Ti", 22.1, 44.1, 288),
    (r"RTX 4060 Laptop", 14.6, 29.2, 256),
    (r"RTX 4060", 15.1, 30.2, 272),
    (r"RTX 3090", 35.6, 71, 936),
    (r"RTX 3080 Ti", 34.1, 68, 912),
    (r"RTX 3080", 29.8, 59.5, 760),
    (r"RTX 3070", 20.3, 40.6, 448),
    (r"RTX 3060 Ti", 16.2, 32.4, 448),
    (r"RTX 3060", 12.7, 25.5, 360),
    (r"RTX 3050", 9.1, 18.2, 224),
    (r"RTX 2080 Ti", 13.4, 53.8, 616),
    (r"RTX 2080", 10.1, 40.3, 448),
    (r"RTX 2070", 7.5, 29.9, 448),
    (r"RTX 2060", 6.5, 25.8, 336),
    (r"TITAN RTX", 16.3, 65, 672),
    (r"GTX 16[56]0", 5.0, 10.0, 288),
    (r"GTX 1080 Ti", 11.3, 11.3, 484),
    (r"GTX 10[78]0", 8.0, 8.0, 288),
    (r"P100", 9.5, 18.7, 732),
    (r"P40\b", 11.8, 11.8, 346),
    (r"MI325X", 163, 1307, 6000),
    (r"MI300[XA]", 163, 1307, 5300),
    (r"MI250", 45, 181, 1638),  # one of its two dies
    (r"MI210", 22.6, 181, 1638),
    (r"W7900", 61, 123, 864),
    (r"W7800", 45, 90, 576),
    (r"7900 XTX", 61, 123, 960),
    (r"7900 XT\b", 51, 103, 800),
    (r"7900 GRE", 46, 92, 576),
    (r"7800 XT", 37, 74, 624),
    (r"7700 XT", 35, 70, 432),
    (r"7600", 21, 43, 288),
    (r"9070 XT", 48, 195, 640),
    (r"9070", 36, 145, 640),
    (r"6[89][05]0 XT", 21, 42, 512),
    (r"6700 XT", 13.2, 26.4, 384),
    (r"6600", 8.9, 17.9, 224),
    (r"8060S|Strix Halo", 29, 59, 256),
    (r"B580", 14.6, 117, 456),
    (r"A770", 19.7, 157, 560),
    (r"M[234] Ultra", 27, 27, 800),
    (r"M[34] Max", 14, 14, 400),
    (r"M[1234] Max", 11, 11, 400),
    (r"M[1234] Pro", 6, 6, 200),
    (r"M[1234]\b", 3.5, 3.5, 100),
)

ARCHITECTURES: tuple[Row, ...] = (
    # what the cards of an architecture have about the middle
    (r"sm_1[02]", 40, 100, 800),
    (r"sm_90", 60, 900, 3000),
    (r"sm_89", 30, 70, 500),
    (r"sm_8[0-7]", 20, 60, 500),
    (r"sm_75", 8, 30, 400),
    (r"sm_70", 14, 110, 800),
    (r"sm_[56]", 6, 6, 250),
    (r"gfx94", 160, 1300, 5300),
    (r"gfx90", 23, 180, 1600),
    (r"gfx12", 40, 160, 640),
    (r"gfx11", 40, 80, 600),
    (r"gfx103", 13, 26, 350),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A speed that nobody measured."""

    speed: Speed
    """What large products and copies reach."""
    by_name: bool
    """Whether it is of this card; else only of its architecture."""


def published(card: Accelerator) -> Published | None:
    """The speed of a card by its name, else by its architecture; None for one not known here."""
    found = _first(CARDS, card.name)
    if row := found or _first(ARCHITECTURES, _architecture(card)):
        compute, memory = _part(card.name)
        _, fp32, half, bandwidth = row
        reached = REACHED[card.kind] * compute
        tflops = {"fp32": fp32 * reached, "fp16": half * reached}
        # Cards before 8.0 compute bf16 as fp32, with the casts that go with it.
        tflops["bf16"] = (fp32 if card.native_bf16 is False else half) * reached
        speed = Speed(
            tflops=tflops, bandwidth_gb_s=bandwidth * COPIED * memory, launch_us=LAUNCH_US
        )
        return Published(speed=speed, by_name=found is not None)
    return None


def _first(table: tuple[Row, ...], name: str) -> Row | None:
    return next((row for row in table if re.search(row[0], name, re.IGNORECASE)), None)


def _architecture(card: Accelerator) -> str:
    if card.architecture or card.capability is None:
        return card.architecture
    return f"sm_{card.capability[0]}{card.capability[1]}"


def _part(name: str) -> tuple[float, float]:
    """Shares of compute and bandwidth that a MIG instance has: sevenths and eighths of its card."""
    found = re.search(r"MIG (\d)g\.", name)
    slices = int(found[1]) if found else 7
    return slices / 7, {3: 4, 7: 8}.get(slices, slices) / 8
