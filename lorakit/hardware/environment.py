"""What the process that trains finds in its environment: which card, and how memory is handed out.

It has to be there before PyTorch is imported, so whoever starts the process sets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorakit.hardware import allocator
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.hardware.visible import cpu_wanted, hip_visible


def for_training(hardware: Hardware, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables to add to `environ` for a process that trains on `hardware.accelerator`.

    With more than one card in sight it is named, by its UUID wherever it has one, so that the card
    the plan was made for is the card that trains. A person's own choice of one card stays.
    """
    kind = hardware.torch.kind if hardware.torch else "cpu"
    added = allocator.default(environ, hardware.system, kind)
    if cpu_wanted(environ):
        return {**added, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
    card = hardware.accelerator
    shown = [a for a in hardware.accelerators if a.kind == kind and a.visible]
    if card is None or len(shown) < 2:
        return added
    if kind == "cuda" and card.uuid:
        added["CUDA_VISIBLE_DEVICES"] = card.uuid
    elif kind == "rocm":
        added |= _amd(card, [a for a in hardware.accelerators if a.kind == kind], environ)
    return added


def _amd(
    card: Accelerator, cards: Sequence[Accelerator], environ: Mapping[str, str]
) -> dict[str, str]:
    """ROCm's own variable takes UUIDs, and what counts cards behind it then counts this one."""
    if card.uuid:
        counting = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & environ.keys()
        return {"ROCR_VISIBLE_DEVICES": card.uuid, **dict.fromkeys(counting, "0")}
    # The graphics units of processors have no UUID. HIP counts what ROCm's variable has left.
    rocm = {k: v for k, v in environ.items() if k == "ROCR_VISIBLE_DEVICES"}
    left = hip_visible([c.uuid for c in cards], rocm)
    places = [cards[n] for n in left]
    return {"HIP_VISIBLE_DEVICES": str(places.index(card))} if card in places else {}
