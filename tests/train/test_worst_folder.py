"""The usable part of the worst folder is trained on, and nothing of it is dropped or doubled."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

import torch
from trainings import batches, changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.dataset.pictures import open_upright, prepare
from lorakit.dataset.views import View
from lorakit.runs.events import Finished
from lorakit.train import prepare as prepared

sys.path.insert(0, str(Path(__file__).parents[1] / "dataset"))

from torture import build

REPEATS = 2


def test_the_usable_part_of_the_worst_folder(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path
) -> None:
    usable, unusable, _, _ = build(tmp_path / "worst")
    for name in usable:
        place = tmp_path / "good" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tmp_path / "worst" / name, place)
        for beside in (tmp_path / "worst" / name).parent.glob(f"{Path(name).stem}.*"):
            texts = (".txt", ".caption", ".json")
            if beside.suffix.lower() in texts and beside.name not in unusable:
                shutil.copyfile(beside, place.with_name(beside.name))
    shutil.copyfile(tmp_path / "worst/metadata.jsonl", tmp_path / "good/metadata.jsonl")

    source = {"path": str(tmp_path / "good"), "repeats": REPEATS, "trigger": "ohwx"}
    wanted = changed(bundle, dataset={"sources": [source]}, train={"batch_size": 4})
    live = changed(wanted, memory={"cache_latents": False, "cache_text": False})
    one, other = (
        batches(wanted, watched(tmp_path / "one")),
        batches(live, watched(tmp_path / "two")),
    )

    _, report = prepared.look(wanted, tmp_path)
    assert {p.name for p in report.pictures} == usable.keys()
    for picture in report.pictures:
        expected = usable[picture.name].caption
        assert picture.caption == (f"ohwx {expected}" if expected else "ohwx")
        whole = open_upright(picture.path)
        assert (picture.width, picture.height) == whole.size
        shown = prepare(picture.path, View(fit=picture.fit))
        assert shown.size == (picture.fit.width, picture.fit.height)

    plan, per_epoch = one.plan, one.plan.batches_per_epoch
    for epoch in range(2):
        seen = Counter[int]()
        for step in range(epoch * per_epoch + 1, (epoch + 1) * per_epoch + 1):
            [pick] = plan.picks(step, 1)
            assert pick.epoch == epoch
            seen.update(pick.indices)
        assert seen == Counter(range(REPEATS * len(usable)))

    for step in range(1, per_epoch + 1):
        [mine], [theirs] = one.of(step), other.of(step)
        assert torch.equal(mine.latents, theirs.latents)
        assert torch.equal(mine.conditions.hidden, theirs.conditions.hidden)

    steps = changed(wanted, train={"steps": per_epoch})
    ended = trained(steps, tmp_path / "run", watched(tmp_path / "run"))
    assert isinstance(ended, Finished)
    assert ended.step == per_epoch
