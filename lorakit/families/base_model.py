"""Looks at a base model: which family, which sizes, what is missing. Reads no weights."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lorakit.bundle.models import PICO, Base, Bundle
from lorakit.errors import LorakitError
from lorakit.families import components, single_file
from lorakit.families.blocks import units
from lorakit.families.families import FAMILIES, Family
from lorakit.families.header import shapes
from lorakit.families.ldm_names import LAYERS
from lorakit.families.locate import locate
from lorakit.families.pipelines import agree, family_of, schedule_of
from lorakit.families.recognise import recognise
from lorakit.families.shipped import configuration, published
from lorakit.families.single_file import zero_snr

PREDICTIONS = ("epsilon", "v_prediction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much an adapter on some targets is, whatever its rank."""

    layers: int
    weights_a_rank: int
    """Trained weights for each unit of rank: a layer from `in` to `out` has in + out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """What the configuration files of a base say, or the header of its one file."""

    model: str
    """As the bundle has it."""
    folder: Path | None
    """Where it lies, which is one file for some; None for a Hub id that is not in the local
    cache."""
    family: str
    resolution: int
    """Side of its square pictures, in pixels."""
    size_step: int
    """Width and height of a picture must be multiples of this, in pixels."""
    latent_factor: int
    """Pixels of a picture on one side of a latent."""
    token_limit: int
    """Tokens of a caption that are read, without start and end."""
    prediction: str
    """`epsilon` or `v_prediction`: as the bundle says, else as the base says itself."""
    weight_bytes: int | None
    """Size on disk of the weights that training loads."""
    unet: Mapping[str, Any] = field(default_factory=dict)
    """Configuration of its UNet, or of its family's published one where it is not here; empty where
    it makes no sense."""
    extents: Mapping[str, Extent] = field(default_factory=dict)
    """For each value of `adapter.targets`; empty where its UNet is not here to be looked at."""
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    """Configuration of its noise schedule, with what the bundle says in it."""
    says: str = ""
    """What it says itself that it predicts; empty where it does not."""
    says_zero_snr: bool = False
    """Whether it says itself that its noise schedule ends at SNR 0."""
    notes: tuple[str, ...] = ()
    """What was chosen of what is there, such as weights in half precision."""

    @property
    def zero_snr(self) -> bool:
        """Whether its noise schedule ends at SNR 0."""
        return bool(self.scheduler.get("rescale_betas_zero_snr"))

    @property
    def guessed(self) -> bool:
        """Whether nobody knows its family: a Hub id that is not here, and not well known."""
        return self.folder is None and self.model.lower() not in WELL_KNOWN


SMALL_BYTES = 200_000_000
"""A base with less in weights trains well enough on a CPU."""


def is_small(bundle: Bundle, base: BaseFacts | None) -> bool:
    """Whether the base of a bundle is pico, or about as small."""
    size = base.weight_bytes if base else None
    return bundle.base.model == PICO or (size is not None and size < SMALL_BYTES)


WELL_KNOWN = {
    "compvis/stable-diffusion-v1-4": "sd1",
    "runwayml/stable-diffusion-v1-5": "sd1",
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "sd1",
    "lykon/dreamshaper-8": "sd1",
    "stabilityai/stable-diffusion-2": "sd2",
    "stabilityai/stable-diffusion-2-base": "sd2",
    "stabilityai/stable-diffusion-2-1": "sd2",
    "stabilityai/stable-diffusion-2-1-base": "sd2",
    "stabilityai/stable-diffusion-xl-base-1.0": "sdxl",
    "lykon/dreamshaper-xl-1-0": "sdxl",
    "cagliostrolab/animagine-xl-3.1": "sdxl",
    "cagliostrolab/animagine-xl-4.0": "sdxl",
    "sg161222/realvisxl_v5.0": "sdxl",
}
"""Families of some Hub ids, in small letters, for as long as they are not on this machine."""


def recognised(base: Base, root: Path) -> Base:
    """The base with the family that its folder or file has; of a Hub id that is not here, the one
    that is well known; else as it is.

    Raises LorakitError where there is no such base.
    """
    place = locate(base, root)
    known = WELL_KNOWN.get(base.model.lower())
    family = known if place is None else recognise(place, pickles=base.pickle).family
    return base.model_copy(update={"family": family}) if family else base


def usual(name: str, model: str = "", base: Base | None = None) -> BaseFacts:
    """What is true of any base of a family, as long as the base itself is not here."""
    family = FAMILIES[name]
    scheduler = _scheduled(configuration(name, "scheduler"), base)
    return BaseFacts(
        model=model,
        folder=None,
        family=name,
        resolution=family.resolution,
        size_step=family.size_step,
        latent_factor=8,
        token_limit=family.token_limit,
        prediction=scheduler["prediction_type"],
        weight_bytes=None,
        unet=published(name),
        scheduler=scheduler,
    )


def _scheduled(scheduler: Mapping[str, Any], base: Base | None) -> dict[str, Any]:
    """A noise schedule with what a bundle says of it."""
    made = {"prediction_type": "epsilon", **scheduler}
    if base and base.prediction:
        made["prediction_type"] = base.prediction
    return zero_snr(made) if base and base.zero_snr else made


def inspect(base: Base, root: Path) -> BaseFacts:
    """The facts of a base; of a Hub id not yet downloaded, those of its family.

    Raises LorakitError naming what is missing or of another family.
    """
    place = locate(base, root)
    if place is None:
        return usual(base.family, base.model, base)
    if os.path.isfile(place):
        return _of_file(base, place)
    return _of_folder(base, place)


def _of_file(base: Base, file: Path) -> BaseFacts:
    found = recognise(file, pickles=base.pickle)
    if found.kind in ("checkpoint", "unet"):
        agree(base, found.family)
    if found.problem:
        raise LorakitError(found.problem, found.fix)
    opened = single_file.opened(file)
    matrices = single_file.layers(opened.shapes("unet"))
    predicts = {"epsilon": "the noise", "v_prediction": "v"}
    made = _facts(base, file, opened.configs, _extents(matrices, FAMILIES[base.family]))
    silent = not found.prediction and not base.prediction
    said = f"does not say what it predicts, taken: {predicts[made.prediction]}"
    return replace(
        made,
        says=found.prediction,
        says_zero_snr=found.zero_snr,
        notes=(f"{file.name} {said}",) if silent else (),
    )


def _of_folder(base: Base, folder: Path) -> BaseFacts:
    family = FAMILIES[base.family]
    _config(folder / "model_index.json", base)
    agree(base, family_of(folder))
    missing = [p for p in family.parts if not os.path.isdir(folder / p)]
    if missing:
        there = ", ".join(sorted(f.name for f in folder.iterdir() if f.is_dir())) or "none"
        raise LorakitError(
            f"The base model {base.model} lacks {', '.join(missing)}; its folders: {there}.",
            f"A {family.title} folder as diffusers writes it holds {', '.join(family.parts)}.",
        )
    configs = configurations(base, folder)
    facts = _facts(base, folder, configs, _counted(components.weight_files(folder, "unet"), family))
    says, zero = schedule_of(folder)
    notes = components.notes(folder, family)
    return replace(facts, says=says, says_zero_snr=zero, notes=notes)


def configurations(base: Base, folder: Path) -> dict[str, dict[str, Any]]:
    """What a diffusers folder says of the parts in `_CONFIGURED`.

    Raises LorakitError for a model that cannot be trained as one of the bundle's family.
    """
    named = {p: "scheduler_config.json" if p == "scheduler" else "config.json" for p in _CONFIGURED}
    configs = {p: _config(folder / p / named[p], base) for p in _CONFIGURED}
    if family_of(folder) is None:
        raise LorakitError(
            f"The base model {base.model} is none of"
            f" {', '.join(f.title for f in FAMILIES.values())}.",
            "Choose a model of one of these families.",
        )
    _suits(base, configs["unet"], configs["vae"], configs["scheduler"])
    return configs


_CONFIGURED = ("unet", "vae", "text_encoder", "scheduler")
"""Parts whose configuration says what a training has to know."""


def _facts(
    base: Base,
    place: Path,
    configs: Mapping[str, Mapping[str, Any]],
    extents: Mapping[str, Extent],
) -> BaseFacts:
    """What follows from the configurations of `_CONFIGURED`."""
    unet, vae, text = (configs[part] for part in ("unet", "vae", "text_encoder"))
    latent_factor = 2 ** (len(_channels(vae, "vae", base)) - 1)
    scheduler = _scheduled(configs["scheduler"], base)
    parts = components.weighty(FAMILIES[base.family])
    return BaseFacts(
        model=base.model,
        folder=place,
        family=base.family,
        resolution=int(unet.get("sample_size") or 64) * latent_factor,
        size_step=latent_factor * 2 ** (len(_channels(unet, "unet", base)) - 1),
        latent_factor=latent_factor,
        token_limit=int(text.get("max_position_embeddings", 77)) - 2,
        prediction=str(scheduler["prediction_type"]),
        weight_bytes=sum(components.weight_bytes(place, part) for part in parts),
        unet=unet if _makes_sense(unet) else {},
        extents=extents,
        scheduler=scheduler,
    )


def _makes_sense(unet: Mapping[str, Any]) -> bool:
    """Whether a configuration can be counted; what is wrong with one, building the model says."""
    try:
        return units(unet) != ()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def _counted(files: Iterable[Path], family: Family) -> dict[str, Extent]:
    """From the headers of a UNet's weights; what is wrong with those, loading them says."""
    try:
        found = [item for file in files for item in shapes(file).items()]
    except (OSError, ValueError):
        return {}
    matrices = [(name, shape) for name, shape in found if len(shape) > 1]
    layers = {n.removesuffix(".weight"): s for n, s in matrices if n.endswith(".weight")}
    return _extents(layers, family)


def _extents(layers: Mapping[str, tuple[int, ...]], family: Family) -> dict[str, Extent]:
    """By the shapes of a UNet's layers."""
    named = {targets: family.adapted(layers, targets) for targets in family.targets}
    return {
        targets: Extent(
            layers=len(names),
            weights_a_rank=sum(layers[n][0] + math.prod(layers[n][1:]) for n in names),
        )
        for targets, names in named.items()
        if names
    }


def _suits(
    base: Base, unet: dict[str, Any], vae: dict[str, Any], scheduler: dict[str, Any]
) -> None:
    """Raise for a relative of the family that cannot be trained as one."""
    wrong = ""
    if unet.get("in_channels", 4) != 4:
        wrong = f"takes {unet['in_channels']} channels, as models for inpainting do, and not 4"
    elif base.family == "sdxl" and unet.get("layers_per_block", LAYERS) != LAYERS:
        wrong = f"has {unet['layers_per_block']} layers a block, and SDXL has {LAYERS}"
    elif vae.get("latents_mean") or vae.get("latents_std"):
        wrong = "has a VAE that shifts its latents, as Playground 2.5 has"
    elif scheduler.get("prediction_type", "epsilon") not in PREDICTIONS:
        wrong = f"predicts {scheduler['prediction_type']}, not {' or '.join(PREDICTIONS)}"
    if wrong:
        raise LorakitError(
            f"The base model {base.model} {wrong}.",
            f"Choose a {FAMILIES[base.family].title} model for pictures from text.",
        )


def _channels(config: Mapping[str, Any], part: str, base: Base) -> list[int]:
    found = config.get("block_out_channels")
    if not isinstance(found, list) or not found:
        raise LorakitError(
            f"The base model {base.model} does not say how its {part} is built.",
            f"Its {part}/config.json has no block_out_channels; download it again.",
        )
    return found


def _config(path: Path, base: Base) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("not a table")
        return found
    except FileNotFoundError:
        raise LorakitError(
            f"The base model {base.model} has no {path.parent.name}/{path.name}.",
            f"{path.parent} is not a diffusers folder, or its download is not complete.",
        ) from None
    except ValueError:
        raise LorakitError(
            f"The base model {base.model} has a damaged {path.name}.", f"Download {path} again."
        ) from None
    except OSError as error:
        raise LorakitError(
            f"{path} cannot be read: {error.strerror or error}.", "Look at its permissions."
        ) from None
