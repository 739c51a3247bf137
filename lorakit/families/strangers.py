"""Files of weights that lie beside base models and are none: LoRAs, parts, other architectures."""

from __future__ import annotations

import re

from lorakit.families.content import Content
from lorakit.families.families import FAMILIES
from lorakit.families.header import Header

BASE = "Give the checkpoint or the diffusers folder of a base model."


def known(header: Header) -> Content | None:
    """What a file without a UNet of the original layout is; None: nobody knows."""
    return _adapter(header) or _part(header) or _other(header)


_LORA = re.compile(
    r"^(lora_(unet|te\d?|transformer)_|lycoris_)|\.(lora_(down|up|A|B|mid)\b|lora\.(down|up)\b"
    r"|hada_w\d|lokr_w\d|oft_blocks|dora_scale|lora_linear_layer)"
)


def _adapter(header: Header) -> Content | None:
    some = next((n for n in header.tensors if _LORA.search(n)), None)
    if some is None:
        return None
    family = _family_of_lora(header)
    of = f" for {FAMILIES[family].title}" if family else ""
    return Content(
        kind="lora",
        family=family,
        title=f"LoRA{of}",
        evidence=some,
        wrong=f"is a LoRA{of}, no base model",
        fix="Give the base model that it was made for.",
    )


_WIDTHS = {768: "sd1", 1024: "sd2", 2048: "sdxl"}
"""Widths of captions."""

_READS_CAPTIONS = re.compile(r"attn2[._]to_k.*(lora_down|lora\.down|lora_A)\b")


def _family_of_lora(header: Header) -> str:
    """By the width of the captions that it reads, else by what its metadata says."""
    read = [t.shape for name, t in header.tensors.items() if _READS_CAPTIONS.search(name)]
    widths = [shape[1] for shape in read if len(shape) > 1]
    if widths:
        return _WIDTHS.get(widths[0], "")
    told = header.metadata.get("ss_base_model_version", "")
    versions = {"sd_v1": "sd1", "sd_v2": "sd2", "sdxl_": "sdxl"}
    return next((family for start, family in versions.items() if told.startswith(start)), "")


_PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("controlnet", "ControlNet", ("control_model.", "controlnet_")),
    ("other", "T2I adapter", ("adapter.body.",)),
    ("other", "IP adapter", ("ip_adapter.",)),
    ("component", "UNet of a diffusers folder", ("down_blocks.",)),
    ("text encoder", "T5 text encoder", ("encoder.block.",)),
    ("vae", "VAE", ("encoder.down", "decoder.", "first_stage_model.")),
    ("other", "image encoder of CLIP", ("vision_model.",)),
    (
        "text encoder",
        "text encoder",
        (
            "text_model.",
            "embeddings.token_embedding",
            "transformer.resblocks.",
            "cond_stage_model.",
            "conditioner.",
        ),
    ),
    ("embedding", "embedding", ("emb_params", "string_to_param", "clip_l", "clip_g", "<")),
)
"""Kind, title, and what some of its names begin with; the first that fits is it."""


def _part(header: Header) -> Content | None:
    for kind, title, starts in _PARTS:
        some = next((n for n in header.tensors if n.startswith(starts)), None)
        if some is not None:
            article = "an" if title[0] in "aeioI" else "a"
            fix = "Give the diffusers folder that it belongs to." if kind == "component" else BASE
            wrong = f"is {article} {title} alone, no base model"
            return Content(kind=kind, title=title, evidence=some, wrong=wrong, fix=fix)
    return None


_OTHERS = {
    "joint_blocks.": "Stable Diffusion 3",
    "double_blocks.": "Flux",
    "double_layers.": "AuraFlow",
    "adaln_single.": "PixArt",
    "cap_embedder.": "Lumina",
    "clip_txt_mapper.": "Stable Cascade",
    "patch_embedding.": "Wan",
}
"""By a part of the name of some of their tensors."""


def _other(header: Header) -> Content | None:
    for mark, title in _OTHERS.items():
        some = next((n for n in header.tensors if f".{mark}" in f".{n}"), None)
        if some is not None:
            ours = ", ".join(f.title for f in FAMILIES.values())
            return Content(
                kind="other",
                title=title,
                evidence=some,
                wrong=f"is {title}, which lorakit does not train",
                fix=f"Choose a model of one of these: {ours}.",
            )
    return None
