"""Which device a training runs on, and with which attention kernel."""

from __future__ import annotations

import os
import platform
from typing import Any

import psutil
import torch

from lorakit.bundle.lock import Lock
from lorakit.errors import LorakitError


def threads(locked: int | None = None) -> int:
    """Threads for the CPU: OMP_NUM_THREADS, else those of the bundle's lock, else the physical
    cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    if locked:
        return locked
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, psutil.cpu_count(logical=False) or 1))


def settle(lock: Lock | None = None) -> torch.device:
    """Choose the device through accelerate and set the number of threads, that of the lock if any.

    Everything is passed on by name: a forgotten `accelerate config` or an ACCELERATE_ variable of
    another program has no say. LORAKIT_CPU, set to anything but 0, means the CPU.
    """
    from accelerate import Accelerator
    from accelerate.utils import DynamoBackend

    torch.set_num_threads(threads(lock.threads if lock else None))
    accelerator = Accelerator(
        cpu=os.environ.get("LORAKIT_CPU", "").strip() not in ("", "0"),
        mixed_precision="no",
        device_placement=False,
        gradient_accumulation_steps=1,
        dynamo_backend=DynamoBackend.NO,
        step_scheduler_with_optimizer=False,
    )
    return torch.device(accelerator.device)


def describe(device: torch.device) -> str:
    """A device in words."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        # Its start tells two cards of a name apart, and CUDA_VISIBLE_DEVICES takes it.
        uuid = driver_uuid(str(getattr(torch.cuda.get_device_properties(device), "uuid", "")))
        return f"{name} ({uuid[:12]})" if uuid else name
    if device.type == "cpu":
        count = torch.get_num_threads()
        return f"CPU, {count} thread{'s' if count > 1 else ''}"
    return device.type.upper()


def spills(device: torch.device) -> bool:
    """Whether the driver moves memory of a full card into RAM instead of failing: on Windows, WSL
    included."""
    windows = platform.system() == "Windows" or "microsoft" in platform.release().lower()
    return device.type == "cuda" and windows


def driver_uuid(text: str) -> str:
    """A UUID of PyTorch's as the driver writes it.

    Of an NVIDIA card PyTorch leaves out `GPU-`. Of an AMD card it shows the sixteen characters of
    the driver's as if they were bytes.
    """
    digits = text.replace("-", "").lower()
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return text
    characters = raw.rstrip(b"\0")
    if len(characters) == 16 and all(c in b"0123456789abcdefABCDEF" for c in characters):
        return f"GPU-{characters.decode().lower()}"
    return f"GPU-{text}" if len(raw) == 16 and any(raw) else ""


def attend(unet: Any, kernel: str) -> None:
    """Set the attention kernel of a model, one of `memory.attention`."""
    if kernel == "xformers":
        try:
            unet.enable_xformers_memory_efficient_attention()
        except (ImportError, ValueError, NotImplementedError) as error:
            raise LorakitError(
                f"xformers cannot be used here: {error}",
                'Install xformers for this torch, or set memory.attention = "sdpa".',
            ) from error
