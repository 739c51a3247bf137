"""`python -m lorakit.train.draw RUN PROMPT --out FILE`: a picture with the LoRA of a run.

Prints the path of the picture. The base and the size are those of the run's bundle.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lorakit import durable
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import checkpoints
from lorakit.train.worker import crash, settle_environment


def main(argv: list[str]) -> int:
    """Draw; returns the exit code."""
    parser = argparse.ArgumentParser(prog="lorakit.train.draw", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("prompt")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--guidance", type=float, default=None)
    args = parser.parse_args(argv)
    try:
        draw(args)
    except LorakitError as error:
        print(f"lorakit: error: {error.message}\n  {error.hint}", file=sys.stderr)
        return int(error.code)
    except Exception as error:
        message, code = crash(error)
        print(f"lorakit: error: The picture was not drawn: {message}", file=sys.stderr)
        return int(code)
    print(args.out)
    return int(ExitCode.OK)


def newest_adapter(run: Path, name: str) -> Path:
    """The file of a run's end, or the adapter of a checkpoint that is newer."""
    final = run / f"{name}.safetensors"
    steps = checkpoints.complete(run)
    if final.is_file() and (not steps or _step_of(final) >= steps[-1]):
        return final
    if not steps:
        raise LorakitError(
            f"The run {run.name} has no LoRA yet.",
            "Wait for its first checkpoint, or ask for one with the key s in `lorakit watch`.",
        )
    return run / checkpoints.FOLDER / f"step-{steps[-1]:06d}" / checkpoints.ADAPTER


def _step_of(file: Path) -> int:
    """The step that an adapter file was written at, 0 where it does not say."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        told = (opened.metadata() or {}).get("ss_steps", "")
    return int(told) if told.isdigit() else 0


def draw(args: argparse.Namespace) -> None:
    """Load the base of the run, put the LoRA on through diffusers' loader, draw and write a PNG."""
    from lorakit.bundle.read import read
    from lorakit.families.base_model import inspect

    bundle = read(args.run / "bundle.toml")
    adapter = newest_adapter(args.run, bundle.name)
    base = inspect(bundle.base, args.run)
    if base.folder is None:
        raise LorakitError(
            f"The base model {base.model} is not on this machine.",
            f"Fetch it: lorakit models get {base.model}",
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)

    from lorakit.train import device
    from lorakit.train.families import family_of
    from lorakit.train.step import DTYPES, Conditions

    where = device.settle()
    family = family_of(bundle)
    unet = family.load_unet(base.folder, DTYPES[bundle.train.precision]).to(where)
    family.load_adapter(unet, adapter)
    negative = bundle.sample.negative
    encoders = family.load_text(base.folder, where)
    texts = {t: Conditions(**family.encode_text(encoders, t)) for t in {args.prompt, negative}}
    del encoders
    painter = family.painter(
        base.folder,
        base.scheduler,
        unet,
        (bundle.dataset.resolution,) * 2,
        args.steps or bundle.sample.steps,
        bundle.sample.guidance if args.guidance is None else args.guidance,
        texts,
    )
    [picture] = painter.draw_all([(args.prompt, args.seed)], negative)
    with durable.replacing(args.out) as file:
        picture.save(file, format="PNG")


if __name__ == "__main__":
    settle_environment()
    sys.exit(main(sys.argv[1:]))
