"""The notes in an adapter file's header: what was done, under the keys that readers look for.

A1111, Forge and ComfyUI take a file's family, its name and its tags from them. Each value is a
string, and none is a path or names who trained: of a folder only its own name is written.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lorakit import __version__
from lorakit.bundle.models import PICO, Bundle, Source
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import Family
from lorakit.families.locate import HUB_ID
from lorakit.runs.events import FILE, Tail
from lorakit.train.adapters.files import HASHES, Matrices

MAX_TAGS = 2_000
"""The most frequent tags of a folder that are written. Readers show some dozens; all those of ten
thousand captions would be megabytes in every file, and a header may hold 100 MB."""

MAX_TAGS_IN_ALL = 20_000
"""The same for all folders together."""

MAX_TAG_CHARACTERS = 200
"""A longer one is a paragraph, which nobody shows as a tag."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of one run: what holds for all of its files, and what a step adds."""

    lasting: Mapping[str, str]
    batches_per_epoch: int
    accumulation: int

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        family: Family,
        base: BaseFacts,
        report: DatasetReport,
        batches_per_epoch: int,
        optimizer: torch.optim.Optimizer,
        run: Path,
    ) -> Notes:
        """The notes of a training that is about to begin, or to go on, in the directory `run`."""
        lasting: dict[str, object] = {
            **_session(bundle, run),
            **_training(bundle, optimizer),
            **_model(bundle, family, base),
            **_pictures(bundle, report),
            **_spec(bundle, family, base),
            "ss_num_batches_per_epoch": batches_per_epoch,
            "ss_num_epochs": _epoch(
                bundle.train.steps, bundle.train.accumulation, batches_per_epoch
            ),
        }
        texts = {key: str(value) for key, value in lasting.items()}
        return cls(texts, batches_per_epoch, bundle.train.accumulation)

    def at(self, step: int) -> dict[str, str]:
        """The notes of a file that is written now, after `step` steps.

        Among them are placeholders for its hashes, which `files.write` replaces.
        """
        now = time.time()
        return {
            **self.lasting,
            "ss_steps": str(step),
            "ss_epoch": str(_epoch(step, self.accumulation, self.batches_per_epoch)),
            "ss_training_finished_at": f"{now:.0f}",
            "modelspec.date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            **HASHES,
        }


def diffusers(matrices: Matrices, rank: int, alpha: float) -> dict[str, str]:
    """The adapter's configuration as diffusers looks for it in the header."""
    config = {
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted(matrices),
        "rank_pattern": {},  # older versions look these two up unasked
        "alpha_pattern": {},
    }
    packed = {f"unet.{key}": value for key, value in config.items()}
    return {"format": "pt", "lora_adapter_metadata": json.dumps(packed, sort_keys=True)}


def _epoch(step: int, accumulation: int, batches_per_epoch: int) -> int:
    """The epoch that a step's last batch is in, counted from 1."""
    return -(-step * accumulation // batches_per_epoch)


def _session(bundle: Bundle, run: Path) -> dict[str, object]:
    """Which run it is: the same number in all its files, also after it was resumed."""
    first = next(Tail(run / FILE).read(), None)
    return {
        "ss_session_id": int(hashlib.sha256(run.name.encode()).hexdigest()[:8], 16),
        "ss_training_started_at": f"{first.time if first else time.time():.0f}",
        "ss_output_name": bundle.name,
    }


def _training(bundle: Bundle, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    train = bundle.train
    return {
        "ss_learning_rate": train.learning_rate,
        "ss_unet_lr": train.learning_rate,
        "ss_text_encoder_lr": 0.0,  # not trained; None would mean: as the UNet
        "ss_lr_scheduler": train.schedule,
        "ss_lr_warmup_steps": 0 if train.schedule == "constant" else train.warmup_steps,
        "ss_optimizer": _call(optimizer),
        "ss_max_grad_norm": train.clip_norm,
        "ss_max_train_steps": train.steps,
        "ss_gradient_accumulation_steps": train.accumulation,
        "ss_gradient_checkpointing": bundle.memory.checkpointing != "none",
        "ss_mixed_precision": "no" if train.precision == "fp32" else train.precision,
        "ss_cache_latents": True,
        "ss_seed": train.seed,
        "ss_noise_offset": bundle.loss.noise_offset or None,
        "ss_min_snr_gamma": bundle.loss.snr_gamma or None,
    }


def _call(optimizer: torch.optim.Optimizer) -> str:
    """How the optimizer was made, without the learning rate: `module.Class(k=v,...)`."""
    made, options = type(optimizer), optimizer.defaults
    asked = [n for n in inspect.signature(made).parameters if n != "lr" and n in options]
    given = ",".join(f"{n}={options[n]}" for n in asked if options[n] is not None)
    return f"{made.__module__}.{made.__qualname__}({given})"


def _model(bundle: Bundle, family: Family, base: BaseFacts) -> dict[str, object]:
    """The network and its base.

    Readers take the base's hashes for those of one file of weights, and a folder has none.
    """
    adapter = bundle.adapter
    return {
        "ss_network_module": "networks.lora",
        "ss_network_dim": adapter.rank,
        "ss_network_alpha": adapter.alpha,
        "ss_network_dropout": None,
        "ss_network_args": json.dumps({"targets": adapter.targets}),
        "ss_v2": family.is_v2,
        "ss_base_model_version": family.base_model_version(base.prediction),
        "ss_sd_model_name": _base_name(base),
        "ss_vae_name": None,  # the base's own
    }


def _base_name(base: BaseFacts) -> str:
    """A Hub id, or of a folder its own name."""
    # A folder may be named like a Hub id; what comes from the Hub lies in one named by its commit.
    here = base.folder is not None and base.folder.name == Path(base.model).name
    if base.model == PICO or (HUB_ID.match(base.model) and not here):
        return base.model
    return _own_name(base.model)


def _own_name(path: str) -> str:
    """The last part of a path, unless that is who trained: then `home`."""
    whole = os.path.abspath(os.path.expanduser(path))
    return "home" if whole == os.path.expanduser("~") else os.path.basename(whole)


def _pictures(bundle: Bundle, report: DatasetReport) -> dict[str, object]:
    """The pictures: sizes and counts, and the tags of each folder."""
    dataset, batch = bundle.dataset, bundle.train.batch_size
    names = _folder_names(dataset.sources)
    captions: list[list[str]] = [[] for _ in names]
    for picture in report.pictures:
        captions[picture.source].append(picture.caption)
    folders = {
        name: {"n_repeats": source.repeats, "img_count": len(told)}
        for name, source, told in zip(names, dataset.sources, captions, strict=True)
    }
    limit = min(MAX_TAGS, MAX_TAGS_IN_ALL // len(names))
    tags = {name: _tags(told, limit) for name, told in zip(names, captions, strict=True)}
    return {
        "ss_num_train_images": report.epoch,
        "ss_num_validation_images": 0,
        "ss_num_reg_images": 0,
        "ss_batch_size_per_device": batch,
        "ss_total_batch_size": batch * bundle.train.accumulation,
        "ss_resolution": (dataset.resolution, dataset.resolution),
        "ss_enable_bucket": dataset.buckets,
        "ss_bucket_info": json.dumps(_buckets(report)),
        "ss_dataset_dirs": json.dumps(folders),
        "ss_reg_dataset_dirs": json.dumps({}),
        "ss_tag_frequency": json.dumps(tags),
    }


def _folder_names(sources: Sequence[Source]) -> list[str]:
    """A name for each folder, with a number behind it where another has the same."""
    names: list[str] = []
    for source in sources:
        name = own = _own_name(source.path)
        number = 1
        while name in names:
            number += 1
            name = f"{own} ({number})"
        names.append(name)
    return names


def _tags(captions: Iterable[str], limit: int) -> dict[str, int]:
    """How many captions of a folder hold each tag, the most frequent first."""
    counted = Counter(tag.strip() for c in captions for tag in c.lower().split(","))
    told = ((t, n) for t, n in counted.items() if 0 < len(t) <= MAX_TAG_CHARACTERS)
    return dict(sorted(told, key=lambda item: (-item[1], item[0]))[:limit])


def _buckets(report: DatasetReport) -> dict[str, Any]:
    """Each size with the pictures in it, repeats counted, and how far shapes are from theirs."""
    counts: Counter[tuple[int, int]] = Counter()
    for p in report.pictures:
        counts[p.fit.width, p.fit.height] += p.repeats
    off = [abs(p.fit.width / p.fit.height - p.width / p.height) for p in report.pictures]
    return {
        "buckets": {
            str(n): {"resolution": size, "count": count}
            for n, (size, count) in enumerate(sorted(counts.items()))
        },
        "mean_img_ar_error": sum(off) / len(off) if off else 0.0,
    }


def _spec(bundle: Bundle, family: Family, base: BaseFacts) -> dict[str, object]:
    """Stability's model metadata standard, version 1.0.1."""
    side = bundle.dataset.resolution
    notes = {
        "modelspec.sai_model_spec": "1.0.1",
        "modelspec.architecture": family.architecture(base.prediction),
        "modelspec.implementation": family.implementation,
        "modelspec.implementation_version": f"lorakit/{__version__}",
        "modelspec.title": bundle.name,
        "modelspec.resolution": f"{side}x{side}",
        "modelspec.prediction_type": "v" if base.prediction == "v_prediction" else "epsilon",
    }
    triggers = dict.fromkeys(s.trigger for s in bundle.dataset.sources if s.trigger)
    if triggers:
        notes["modelspec.trigger_phrase"] = ", ".join(triggers)
    return dict(notes)
