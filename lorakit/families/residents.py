"""What encoders that stay on the device add to the phases of a training, in bytes.

The planner's table and the dry run each know what the phases hold with everything cached; the same
few lines make the rest of both.
"""

from __future__ import annotations

from collections.abc import Mapping

from lorakit.bundle.models import Memory

Parts = Mapping[str, float]
"""Bytes by what they are for; `activations` is what is held only while something is computed."""


def caching(memory: Memory, pictures: Parts, captions: Parts) -> dict[str, float]:
    """The worst moment before training: all captions first, or prompts alone, then all pictures.

    `pictures` are the VAE with one picture, `captions` the text encoders with one caption.
    """
    if not memory.cache_latents:
        return dict(captions)
    before = {} if memory.cache_text else _weights(captions)
    return max(dict(captions), {**before, **pictures}, key=_total)


def training(memory: Memory, step: Parts, kept: Parts, pictures: Parts, captions: Parts) -> Parts:
    """The worst moment of training: a step, or between two of them an encoder at work.

    `kept` is what stays of a step's parts between steps.
    """
    staying = resident(memory, pictures, captions)
    if not staying:
        return step
    working = [
        encoder["activations"]
        for is_cached, encoder in ((memory.cache_latents, pictures), (memory.cache_text, captions))
        if not is_cached
    ]
    between = {**kept, **staying, "activations": max(working)}
    return max({**step, **staying}, between, key=_total)


def resident(memory: Memory, pictures: Parts, captions: Parts) -> dict[str, float]:
    """The encoders that stay beside the model for all of the training."""
    staying = {} if memory.cache_latents else _weights(pictures)
    return staying if memory.cache_text else staying | _weights(captions)


def _weights(parts: Parts) -> dict[str, float]:
    return {name: size for name, size in parts.items() if name != "activations"}


def _total(parts: Parts) -> float:
    return sum(parts.values())
