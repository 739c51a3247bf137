"""Looks at a base model's folder: which family, which sizes, what is missing. Reads no weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lorakit.bundle.models import PICO, Base
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES, Family
from lorakit.families.header import shapes

PREDICTIONS = ("epsilon", "v_prediction")

ASSETS = Path(__file__).resolve().parent.parent / "assets"

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")

WEIGHTS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
}
"""File stem of the weights in each folder of a pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much an adapter on some targets is, whatever its rank."""

    layers: int
    weights_a_rank: int
    """Trained weights for each unit of rank: a layer from `in` to `out` has in + out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """What the configuration files of a base say."""

    model: str
    """As the bundle has it."""
    folder: Path | None
    """Where it lies; None for a Hub id that is not in the local cache."""
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
    """`epsilon` or `v_prediction`."""
    weight_bytes: int | None
    """Size of its weights on disk."""
    extents: Mapping[str, Extent] = field(default_factory=dict)
    """For each value of `adapter.targets`; empty where its UNet is not here to be looked at."""


def locate(base: Base, root: Path) -> Path | None:
    """The folder of a base: shipped, given by path (relative to `root`), or in the Hub's cache.

    None: a Hub id that has to be downloaded first. Raises LorakitError for anything else.
    """
    if base.model == PICO:
        return ASSETS / "pico"
    given = Path(os.path.expanduser(base.model))  # leaves a ~name that nobody has as it is
    folder = given if given.is_absolute() else root / given
    # Not Path.is_dir, which raises where a folder above may not be entered.
    if os.path.isdir(folder):
        return folder
    if os.path.isfile(folder):
        raise LorakitError(
            f"The base model {base.model} is a single file, and this version loads folders.",
            "Convert it to a diffusers folder, or name a Hub id.",
        )
    if HUB_ID.match(base.model):
        with contextlib.suppress(ValueError):  # the Hub's own rules for names are stricter
            return _cached(base)
    raise LorakitError(
        f"The base model {base.model} is neither a folder here nor a Hub id.",
        f"Looked in {folder}. A Hub id has the form owner/name; pico is shipped with lorakit.",
    )


def _cached(base: Base) -> Path | None:
    """The folder of a Hub id in the Hub's cache, if all that training needs is there.

    Raises ValueError for what cannot be a Hub id.
    """
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(base.model, "model_index.json", revision=base.revision or None)
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    there = [os.path.isdir(folder / part) for part in FAMILIES[base.family].parts]
    weights = [_weights(folder, part) for part in WEIGHTS]
    return folder if all(there) and all(weights) else None


def usual(name: str, model: str = "") -> BaseFacts:
    """What is true of any base of a family, as long as the base itself is not here."""
    family = FAMILIES[name]
    return BaseFacts(
        model=model,
        folder=None,
        family=name,
        resolution=family.resolution,
        size_step=family.size_step,
        latent_factor=8,
        token_limit=family.token_limit,
        prediction="epsilon",
        weight_bytes=None,
    )


def inspect(base: Base, root: Path) -> BaseFacts:
    """The facts of a base; of a Hub id not yet downloaded, those of its family.

    Raises LorakitError naming what is missing or of another family.
    """
    family = FAMILIES[base.family]
    folder = locate(base, root)
    if folder is None:
        return usual(family.name, base.model)
    index = _config(folder / "model_index.json", base)
    missing = [p for p in family.parts if not os.path.isdir(folder / p)]
    if missing:
        raise LorakitError(
            f"The base model {base.model} lacks {', '.join(missing)}.",
            f"A {family.title} folder as diffusers writes it holds {', '.join(family.parts)}.",
        )
    unet = _config(folder / "unet" / "config.json", base)
    vae = _config(folder / "vae" / "config.json", base)
    text = _config(folder / "text_encoder" / "config.json", base)
    scheduler = _config(folder / "scheduler" / "scheduler_config.json", base)
    if "text_encoder_2" in index or unet.get("addition_embed_type") == "text_time":
        raise LorakitError(
            f"The base model {base.model} is an SDXL model, and the bundle says {base.family}.",
            f"Choose a {family.title} model.",
        )
    _suits(base, unet, scheduler)
    latent_factor = 2 ** (len(_channels(vae, "vae", base)) - 1)
    return BaseFacts(
        model=base.model,
        folder=folder,
        family=family.name,
        resolution=int(unet.get("sample_size") or 64) * latent_factor,
        size_step=latent_factor * 2 ** (len(_channels(unet, "unet", base)) - 1),
        latent_factor=latent_factor,
        token_limit=int(text.get("max_position_embeddings", 77)) - 2,
        prediction=str(scheduler.get("prediction_type", "epsilon")),
        weight_bytes=sum(size for part in WEIGHTS for size in weight_files(folder, part).values()),
        extents=_extents(weight_files(folder, "unet"), family),
    )


def _extents(files: Iterable[Path], family: Family) -> dict[str, Extent]:
    """Counted in the headers of a UNet's weights; what is wrong with those, loading them says."""
    try:
        found = [item for file in files for item in shapes(file).items()]
    except (OSError, ValueError):
        return {}
    matrices = [(name, shape) for name, shape in found if len(shape) > 1]
    layers = {n.removesuffix(".weight"): s for n, s in matrices if n.endswith(".weight")}
    named = {targets: family.adapted(layers, targets) for targets in family.targets}
    return {
        targets: Extent(
            layers=len(names),
            weights_a_rank=sum(layers[n][0] + math.prod(layers[n][1:]) for n in names),
        )
        for targets, names in named.items()
        if names
    }


def _suits(base: Base, unet: dict[str, Any], scheduler: dict[str, Any]) -> None:
    """Raise for a relative of the family that cannot be trained as one."""
    wrong = ""
    if unet.get("in_channels", 4) != 4:
        wrong = f"takes {unet['in_channels']} channels, as models for inpainting do, and not 4"
    elif unet.get("cross_attention_dim") == 1024:
        wrong = "reads text of width 1024, as Stable Diffusion 2 does"
    elif scheduler.get("prediction_type", "epsilon") not in PREDICTIONS:
        wrong = f"predicts {scheduler['prediction_type']}, not {' or '.join(PREDICTIONS)}"
    if wrong:
        raise LorakitError(
            f"The base model {base.model} {wrong}.",
            f"Choose a {FAMILIES[base.family].title} model for pictures from text.",
        )


def _channels(config: dict[str, Any], part: str, base: Base) -> list[int]:
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


def weight_files(folder: Path, part: str) -> dict[Path, int]:
    """The safetensors files of one part, with sizes: the plain ones, else the fp16 variant.

    Raises LorakitError where there are none.
    """
    found = _weights(folder, part)
    if found:
        return found
    raise LorakitError(
        f"The base model in {folder} has no weights in {part}.",
        f"Expected {part}/{WEIGHTS[part]}.safetensors. Pickled weights (.bin, .ckpt) are not read.",
    )


def _weights(folder: Path, part: str) -> dict[Path, int]:
    stem = WEIGHTS[part]
    for pattern in (f"{stem}.safetensors", f"{stem}-*.safetensors", f"{stem}.fp16*.safetensors"):
        found = {f: f.stat().st_size for f in sorted((folder / part).glob(pattern))}
        if found:
            return found
    return {}


def digest(folder: Path, *parts: str) -> str:
    """sha256 over the configuration and weights of some parts of a pipeline.

    Weights that are there and not loaded, such as a second precision, have no part in it. Names
    count relative to the folder, so the digest is the same wherever the folder lies. Each file is
    read once by a process.
    """
    whole = hashlib.sha256()
    for part in sorted(parts):
        weights = _weights(folder, part) if part in WEIGHTS else {}
        for file in sorted((folder / part).iterdir()):
            spare = bool(weights) and file.suffix == ".safetensors" and file not in weights
            if file.suffix in (".json", ".txt", ".safetensors") and not spare:
                whole.update(f"{part}/{file.name}\0".encode())
                facts = file.stat()
                whole.update(_sha256(file, facts.st_size, facts.st_mtime_ns))
    return whole.hexdigest()


@cache
def _sha256(file: Path, size_bytes: int, changed_ns: int) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def revision(base: BaseFacts) -> str:
    """The commit of a Hub id that its folder in the Hub's cache is of; empty for other bases."""
    folder = base.folder
    from_hub = folder is not None and folder.parent.name == "snapshots" and HUB_ID.match(base.model)
    return folder.name if folder is not None and from_hub else ""
