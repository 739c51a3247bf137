"""Settings of PyTorch's memory allocator: what lorakit adds, and what is wrong with one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""PyTorch reads the first of these that is set. The last is the name that is here to stay."""

WANTED = "expandable_segments:True"
"""Lets a segment grow, so that less of the memory is lost to gaps."""

_SWITCHES = (
    "expandable_segments",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
)
_NUMBERS = (
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "large_segment_size_mb",
    "garbage_collection_threshold",
    "per_process_memory_fraction",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
)


def default(environ: Mapping[str, str], system: str, torch_kind: str) -> dict[str, str]:
    """The variable to set for a training, where the person has set none and it helps.

    Only CUDA on plain Linux has growing segments; elsewhere PyTorch would only warn. `system` is
    as in `Hardware.system`.
    """
    plain = system.startswith("Linux") and "(WSL)" not in system
    if not plain or torch_kind != "cuda" or any(name in environ for name in VARIABLES):
        return {}
    return {VARIABLES[-1]: WANTED}


def faults(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(variable, its right spelling) for each setting that PyTorch would stumble over."""
    for name in VARIABLES:
        value = environ.get(name)
        if value is None:
            continue
        parts = _parts(value)
        # PyTorch fails on a setting without a value; which one was meant nobody knows.
        mended = [_mended(part) for part in parts if re.search("[:=]", part)]
        if mended != parts:
            yield name, ",".join(mended)


def _parts(value: str) -> list[str]:
    """The settings in a value; commas in brackets belong to one of them."""
    plain = re.sub(r"\s", "", value)
    return [part for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", plain) if part]


def _mended(part: str) -> str:
    """A setting as PyTorch reads it. What is not known here is left alone."""
    found = re.fullmatch(r"([a-z_0-9]+)[:=](.*)", part, re.IGNORECASE)
    if not found:
        return part
    key, value = found[1].lower(), found[2]
    if key in _SWITCHES:
        word = {"1": "True", "0": "False", "on": "True", "off": "False"}.get(value.lower())
        return f"{key}:{word or value.capitalize()}"
    if key in _NUMBERS:
        number = re.match(r"\d+(\.\d+)?", value)
        return f"{key}:{number[0] if number else value}"
    return f"{found[1]}:{value}"
