"""One module a family of base models; what is asked of a bundle's is asked here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lorakit.bundle.models import Bundle

if TYPE_CHECKING:
    from lorakit.train.families.stable_diffusion import StableDiffusion


def family_of(bundle: Bundle) -> StableDiffusion:
    """What loads, encodes, predicts and draws for a bundle's family."""
    return importlib.import_module(f"lorakit.train.families.{bundle.base.family}").FAMILY
