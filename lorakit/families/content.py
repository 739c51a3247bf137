"""What one file of weights turns out to be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What one file of weights is."""

    kind: str
    """`checkpoint` for a whole model; `unet`, `component`, `vae`, `text encoder`, `lora`,
    `embedding`, `controlnet`, `other` (a model of another architecture) or `unknown`."""
    family: str = ""
    """The value of `base.family` for it; empty where it has none."""
    title: str = ""
    """In words."""
    evidence: str = ""
    """What in the header says so."""
    prediction: str = ""
    """`epsilon` or `v_prediction` where the file says so, else empty."""
    zero_snr: bool = False
    """Whether it says that its noise schedule ends at SNR 0."""
    wrong: str = ""
    """Why nothing can be trained for it, to stand behind the file's name; empty for a base."""
    fix: str = ""
