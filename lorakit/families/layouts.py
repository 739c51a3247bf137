"""What a file of weights holds, by the names and shapes in its header alone.

The original implementation keeps a whole model in one file, each part under a prefix of its own.
Families are told by how they are built, not by their sizes: SDXL has a label embedding and two text
encoders, SD 2 projects with matrices, and SD 1 with convolutions of 1 x 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lorakit.families import strangers
from lorakit.families.content import Content
from lorakit.families.families import FAMILIES
from lorakit.families.header import Header

UNET = "model.diffusion_model."
"""What stands before the names of a UNet."""

PREFIXES = {
    "sd1": {"text_encoder": "cond_stage_model.transformer."},
    "sd2": {"text_encoder": "cond_stage_model.model."},
    "sdxl": {
        "text_encoder": "conditioner.embedders.0.transformer.",
        "text_encoder_2": "conditioner.embedders.1.model.",
    },
}
"""What stands before the names of each text encoder, by family."""

VAE = ("first_stage_model.", "vae.")

FULL = "Get the whole checkpoint, with VAE and text encoders in it, or a diffusers folder."


def content(header: Header) -> Content:
    """What a file with this header is."""
    names = header.tensors
    if unet := prefix_of(names):
        return _whole(header, unet)
    if known := strangers.known(header):
        return known
    some = ", ".join(sorted(names)[:2])
    return Content(
        kind="unknown",
        title="unknown weights",
        evidence=f"{len(names)} tensors such as {some}" if some else "no tensors",
        wrong=(
            f"holds {len(names)} tensors, and none that was looked for: {UNET}input_blocks of"
            f" {', '.join(f.title for f in FAMILIES.values())}"
        ),
        fix=strangers.BASE,
    )


def prefix_of(names: Iterable[str]) -> str | None:
    """What stands before the names of the UNet in a file; None where there is none."""
    first = "input_blocks.0.0.weight"
    there = set(names)
    return next((p for p in (UNET, "diffusion_model.") if p + first in there), None)


def prefixes(header: Header, family: str) -> dict[str, str]:
    """What stands before the names of each part that is in a file, by the part's folder."""
    names = header.tensors
    found = {"unet": prefix_of(names) or ""}
    for part, *known in (("vae", *VAE), *PREFIXES[family].items()):
        there = next((p for p in known if any(n.startswith(p) for n in names)), "")
        if there:
            found[part] = there
    return found


def _whole(header: Header, unet: str) -> Content:
    """A UNet of the original layout, with or without the rest."""

    def shape(name: str) -> tuple[int, ...]:
        return header.shape(unet + name)

    names = header.tensors
    [takes] = shape("input_blocks.0.0.weight")[1:2] or (0,)
    projections = [n for n in names if n.startswith(unet) and n.endswith(".proj_in.weight")]
    texts = [n for n in names if n.endswith(".attn2.to_k.weight") and n.startswith(unet)]
    [width] = (header.shape(texts[0]) if texts else ())[1:2] or (0,)
    linear = bool(projections) and len(header.shape(projections[0])) == 2
    labels = shape("label_emb.0.0.weight")
    refines = any(n.startswith("conditioner.embedders.0.model.") for n in names)

    family = "sdxl" if labels else "sd2" if linear else "sd1"
    there = prefixes(header, family)
    told = [f"captions {width} wide"]
    if labels:
        told.append(f"a label embedding of {labels[-1]}")
    else:
        told.append(f"{'linear' if linear else 'convolutional'} projections")
    told += [prefix[:-1] for part, prefix in there.items() if part.startswith("text")]
    prediction, zero_snr = markers(header)
    found = Content(
        kind="checkpoint",
        family=family,
        title=FAMILIES[family].title,
        evidence=", ".join(told),
        prediction=prediction,
        zero_snr=zero_snr,
    )
    wrong, title = "", ""
    if labels and (refines or (width == 1280 and labels[-1] == 2560)):
        wrong, title = "is SDXL's refiner, which draws over finished pictures", "SDXL refiner"
    elif labels and any(n.startswith("cond_stage_model.") for n in names):
        wrong, title = "is an unCLIP model, which draws from pictures", "unCLIP"
    elif takes != 4:
        use = {9: "inpainting", 8: "editing pictures", 5: "depth", 7: "upscaling"}.get(takes, "")
        wrong = f"takes {takes} channels{f', as models for {use} do,' if use else ''} and not 4"
        title = f"{found.title}, {use or f'{takes} channels'}"
    elif "edm_mean" in names:
        wrong, title = "is Playground 2.5, whose noise and latents are others", "Playground 2.5"
    elif "edm_vpred.sigma_max" in names:
        wrong, title = "is CosXL, whose noise is another", "CosXL"
    elif any(".quant_state." in n or n.endswith(_QUANTISED) for n in names):
        wrong, title = "holds quantised weights", f"{found.title}, quantised"
    if wrong:
        fix = f"Choose a {found.title} model for pictures from text."
        return replace(found, kind="other", family="", title=title, wrong=wrong, fix=fix)
    missing = sorted({"vae", *PREFIXES[family]} - set(there))
    if missing:
        rest = _list(list(there))
        return replace(
            found,
            kind="unet" if list(there) == ["unet"] else "checkpoint",
            title=f"{found.title}, {rest} alone",
            wrong=f"lacks {_list(missing)}: it holds {rest} alone",
            fix=FULL,
        )
    return found


_QUANTISED = (".absmax", ".scale_weight", "scaled_fp8")
"""Ends of names that only quantised weights have: of bitsandbytes, and of scaled 8 bit floats."""


def markers(header: Header) -> tuple[str, bool]:
    """(prediction, zero SNR) as a file itself says them: by the empty tensors that v-predicting
    checkpoints carry, else by the metadata of the model spec."""
    names = header.tensors
    zero_snr = "ztsnr" in names
    if "v_pred" in names:
        return "v_prediction", zero_snr
    for key in ("modelspec.prediction_type", "modelspec.predict_key"):
        told = header.metadata.get(key, "").strip().lower()
        if told in ("v", "v_prediction", "vpred"):
            return "v_prediction", zero_snr
        if told in ("epsilon", "eps"):
            return "epsilon", zero_snr
    return "", zero_snr


def _list(words: list[str]) -> str:
    """Words as a sentence lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
