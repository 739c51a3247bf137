"""The sections of a bundle: one model each, and the docstring under a field is its documentation.

The same text is the wizard's help, the description in the JSON schema and the reference table.
The lock, which is nobody's to write, has its models in `lock.py`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from lorakit.bundle.lock import Lock
from lorakit.bundle.section import Section

SCHEMA: Literal[1] = 1
"""The version of the bundle's format that this lorakit writes."""

PICO = "pico"
"""The value of `base.model` that means the base model shipped with lorakit."""


def control_character(text: str) -> str | None:
    """The first character of a text that no path on screen or disk should hold, if there is one."""
    return next((c for c in text if c < " " or "\x7f" <= c <= "\x9f"), None)


def _path(text: str) -> str:
    """Refuses what a Windows path in double quotes turns into: `"C:\\new"` holds a line feed."""
    if control_character(text):
        raise PydanticCustomError("control_character", "holds a control character")
    return text


PathText = Annotated[str, Field(min_length=1), AfterValidator(_path)]
"""A path, or a Hub id, as text."""


FamilyName = Literal["sd1", "sd2", "sdxl"]


class Base(Section):
    """The model that the adapter is trained for."""

    family: FamilyName = "sd1"
    """Architecture of the base model: sd1 is Stable Diffusion 1.x, sd2 is 2.x, sdxl is XL, each
    with everything tuned from it."""

    model: PathText = PICO
    """pico (shipped with lorakit), a diffusers folder, one .safetensors file, or a Hub id such as
    owner/name."""

    revision: str = ""
    """Commit, tag or branch of a Hub id. Empty: the newest when first downloaded."""

    prediction: Literal["", "epsilon", "v_prediction"] = ""
    """What the model answers with: the noise (epsilon), or v. Empty: as it says itself, else
    epsilon. A single file of SD 2 often does not say: those for 768 pixels predict v."""

    zero_snr: bool = False
    """End the noise schedule at SNR 0, as v-predicting models may ask for. Those that say so
    themselves are trained so anyway."""

    pickle: bool = False
    """Read pickled weights (.ckpt): weights only, no code."""


class Source(Section):
    """One folder of pictures."""

    path: PathText
    """Folder with pictures and captions of the same name, relative to the bundle's file."""

    repeats: Annotated[int, Field(ge=1, le=9999)] = 1
    """How often each picture of this folder is seen in one epoch."""

    trigger: str = ""
    """Word put before every caption of this folder, and used alone where a caption is missing."""

    prior: bool = False
    """Pictures of the class as the base knows it, such as other dogs: learned beside the subject,
    they keep the base from forgetting. Weighed by loss.prior_weight."""


class Captions(Section):
    """How the captions of a folder become what the model is told."""

    separator: Annotated[str, Field(min_length=1, max_length=8)] = ","
    """What stands between the tags of a caption."""

    shuffle: bool = False
    """Bring the tags into another order each time."""

    keep: Annotated[int, Field(ge=0, le=100)] = 0
    """So many tags at the start stay in their place and are never dropped. A trigger that the
    caption lacks is put before them and stays as well."""

    drop_tags: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Odds of each other tag to be left out."""

    drop: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Odds of a whole caption to be left out, trigger and all, so that the model also learns
    without words."""

    prefix: str = ""
    """Put before every caption."""

    suffix: str = ""
    """Put behind every caption."""

    wildcards: bool = False
    """Read {a|b|c} in a caption as one of these, drawn each time. Such groups may hold others; a
    backslash before a brace or a bar takes it as it stands."""

    lines: bool = False
    """Take each line of a text file as a caption of its own, of which one is drawn each time, as is
    done with several captions of a picture in a .json or metadata file."""


class Shape(Section):
    """How pictures and captions are brought to the model."""

    resolution: Annotated[int, Field(ge=32, le=4096, multiple_of=8)] = 512
    """Side of a square picture of the same area as the training pictures, in pixels."""

    buckets: bool = True
    """Keep each picture's shape by training on several sizes of the same area. Off: square
    crops."""

    background: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] = "#ffffff"
    """Colour behind transparent pictures, as #rrggbb."""

    crop: Literal["centre", "random"] = "centre"
    """Which part stays of a picture that is longer than its bucket. A box in the .json file beside
    a picture, such as a face, stays whole either way."""

    flip: bool = False
    """Mirror pictures, each time with even odds. Not for letters, nor for what is never
    symmetric."""

    colour: Annotated[float, Field(ge=0, le=1)] = 0.0
    """How far brightness, contrast and saturation are changed at random. 0: not at all; 0.1 is
    much."""

    masks: Literal["none", "alpha", "files"] = "none"
    """Where the loss looks. alpha: where a picture is opaque. files: where the picture of the same
    name that ends in -mask is white."""

    variants: Annotated[int, Field(ge=1, le=64)] = 4
    """Versions of each picture and of each caption that a cache keeps where they are changed at
    random; epochs use them in turn. Without the cache every epoch makes its own."""

    captions: Captions = Captions()
    """How captions are read and changed."""


class Dataset(Shape):
    """What to learn from."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1, strict=False)]
    """Folders of pictures."""


class Adapter(Section):
    """What is trained."""

    kind: Literal["lora"] = "lora"
    """Kind of adapter."""

    rank: Annotated[int, Field(ge=1, le=1024)] = 16
    """Inner width of each pair of matrices. More holds more detail, in a larger file."""

    alpha: Annotated[float, Field(gt=0, le=4096)] = 16.0
    """Strength: the adapter's output is scaled by alpha / rank."""

    targets: Literal["attention", "linear"] = "attention"
    """Layers adapted. attention: q, k, v and out of all attention. linear: those, feed-forward and
    projections."""


class OptimizerOptions(Section):
    """Options of the optimizer; check says which of them the chosen one has no use for."""

    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Decoupled weight decay. adamw, adafactor."""

    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the mean of gradients. adamw."""

    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Decay of the mean of squared gradients. adamw."""

    eps: Annotated[float, Field(gt=0, le=1)] = 1e-8
    """Added to the denominator. adamw."""

    beta2_decay: Annotated[float, Field(ge=-1, lt=0)] = -0.8
    """Exponent of the decay of squared gradients over steps. adafactor."""

    clip_threshold: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Limit of an update's root mean square. adafactor."""


class Train(Section):
    """How long, how fast, in what precision."""

    steps: Annotated[int, Field(ge=1, le=10_000_000)] = 1500
    """Optimizer steps in all."""

    batch_size: Annotated[int, Field(ge=1, le=4096)] = 1
    """Pictures in one forward pass."""

    accumulation: Annotated[int, Field(ge=1, le=4096)] = 1
    """Forward passes in one optimizer step."""

    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-4
    """Peak learning rate."""

    schedule: Literal["constant", "linear", "cosine", "constant_with_warmup"] = "cosine"
    """Course of the learning rate, counted in optimizer steps."""

    warmup_steps: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Optimizer steps in which the learning rate rises from 0."""

    optimizer: Literal["adamw", "adafactor"] = "adamw"
    """Rule that turns gradients into updates."""

    optimizer_options: OptimizerOptions = OptimizerOptions()
    """Options of the optimizer."""

    clip_norm: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Limit of the gradient's norm over all trained weights. 0: no limit."""

    precision: Literal["fp32", "fp16", "bf16"] = "bf16"
    """Precision of the forward and backward pass. Trained weights are fp32 in each."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    """Every random draw follows from it."""


class Loss(Section):
    """What the model is told to get right."""

    snr_gamma: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Min-SNR weight: limits how much easy timesteps count. 5 is usual, 0 turns it off."""

    noise_offset: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of noise that is constant over a picture, for very dark and very bright ones. 0:
    none."""

    prior_weight: Annotated[float, Field(ge=0, le=10)] = 1.0
    """How much a picture of a source with `prior` counts beside one of the subject."""

    unmasked_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """How much the part of a picture counts that its mask leaves out."""


Checkpointing = Literal["none", "full"] | Annotated[int, Field(ge=1, le=999)]
"""None of the blocks of a model, all of them, or so many."""


class Memory(Section):
    """What is traded for memory."""

    checkpointing: Checkpointing = "none"
    """Gradient checkpointing: blocks of the model that are computed again in the backward pass, for
    less memory. full: all. A number: so many, those first that free most for their work."""

    attention: Literal["sdpa", "xformers"] = "sdpa"
    """Attention kernel: sdpa is PyTorch's own, xformers must be installed."""

    cache_latents: bool = True
    """Encode pictures once, before training, and free the VAE. Off: at each step."""

    cache_text: bool = True
    """Encode captions once, before training, and free the text encoders. Off: at each step."""


class Sample(Section):
    """Pictures drawn while training, always from the same seeds."""

    every: Annotated[int, Field(ge=0)] = 250
    """Steps between samples. 0: only before the first step and after the last."""

    prompts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Prompts, one picture each. None: no samples at all."""

    negative: str = ""
    """What the pictures should not show."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of the first prompt's picture; the next ones count up from it."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 30
    """Denoising steps of a sample."""

    guidance: Annotated[float, Field(ge=1, le=50)] = 7.5
    """How strictly a sample follows its prompt. 1: no guidance."""


class Save(Section):
    """Checkpoints on the way."""

    every: Annotated[int, Field(ge=0)] = 500
    """Steps between checkpoints. 0: none; the LoRA itself is written at the end."""

    keep: Annotated[int, Field(ge=1)] = 3
    """How many checkpoints stay; older ones are removed."""


class Bundle(Section):
    """One complete, replayable request to train."""

    noun: ClassVar[str] = "bundle"

    schema_version: Annotated[Literal[1], Field(alias="schema")] = SCHEMA
    """Version of this format."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,79}$")]
    """Name of the run and of the file that comes out."""

    base: Base = Base()
    dataset: Dataset
    adapter: Adapter = Adapter()
    train: Train = Train()
    loss: Loss = Loss()
    memory: Memory = Memory()
    sample: Sample = Sample()
    save: Save = Save()

    lock: Lock | None = None
    """Written by lorakit: what a run really used."""
