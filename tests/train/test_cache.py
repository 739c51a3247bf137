"""What is encoded once, and never wrongly: names of entries, damage, and what is made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from trainings import Watched, batches, changed, prepared, watched

from lorakit.bundle.models import Bundle
from lorakit.cache import shards, shelves
from lorakit.dataset.buckets import fit
from lorakit.dataset.views import View
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.events import Noted
from lorakit.train import cache


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    return folder


@pytest.fixture
def wanted(bundle: Bundle, pictures: Path) -> Bundle:
    return changed(bundle, dataset={"sources": [{"path": str(pictures), "trigger": "ohwx"}]})


def draw(path: Path, colour: int, size: tuple[int, int] = (40, 40)) -> None:
    Image.new("RGB", size, (colour, 90, 200)).save(path)


def said(log: Watched) -> str:
    return "\n".join(e.text for e in log.of(Noted))


def encoded(bundle: Bundle, run: Path) -> str:
    """Fill the cache; what was said of it."""
    log = watched(run)
    prepared(bundle, log)
    return said(log)


def test_names_that_begin_alike_share_nothing(
    wanted: Bundle, pictures: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    """Dotted names, and one name with two extensions."""
    for number, name in enumerate(("aaa.bbb.png", "aaa.ccc.png", "dog.png", "dog.jpg")):
        draw(pictures / name, 40 * number)
        (pictures / name).with_suffix(".txt").write_text(name.rpartition(".")[0])
    assert "4 pictures encoded, 0 were in the cache" in encoded(wanted, tmp_path / "one")
    made = batches(changed(wanted, train={"batch_size": 4}), watched(tmp_path / "two"))
    [batch] = made.of(1)
    means = {tuple(latents.flatten()[:4].tolist()) for latents in batch.latents}
    assert len(means) == 4
    texts = {tuple(text.flatten().tolist()) for text in batch.conditions.hidden}
    assert len(texts) == 3  # dog.png and dog.jpg share dog.txt


def test_a_fresh_entry_is_taken_and_another_size_is_made_anew_with_the_reason(
    wanted: Bundle, pictures: Path, tmp_path: Path, fresh_cache: Path, tiny_base: Path
) -> None:
    for number in range(3):
        draw(pictures / f"{number}.png", 40 * number, (2000, 1000 + number))
    first = encoded(wanted, tmp_path / "1")
    assert "latents: 3 pictures encoded, 0 were in the cache" in first
    assert "anew" not in first
    assert "latents: 0 pictures encoded, 3 were in the cache" in encoded(wanted, tmp_path / "2")

    larger = changed(wanted, dataset={"resolution": 48})
    told = encoded(larger, tmp_path / "3")
    assert "latents: 3 pictures encoded, 0 were in the cache" in told
    assert "pictures encoded anew: 3 were there at another size, crop or colour" in told

    draw(pictures / "0.png", 200, (2000, 1000))
    told = encoded(wanted, tmp_path / "4")
    assert "latents: 1 pictures encoded, 2 were in the cache" in told
    assert "anew" not in told

    other = tmp_path / "base"
    shutil.copytree(tiny_base, other)
    config = other / "vae" / "config.json"
    config.write_text(config.read_text().replace('"sample_size": 32', '"sample_size": 64'))
    told = encoded(changed(wanted, base={"model": str(other)}), tmp_path / "5")
    assert "latents: 3 pictures encoded, 0 were in the cache" in told
    assert "anew: 3 by another VAE, device, PyTorch or number of threads" in told
    assert "latents: 0 pictures encoded, 3 were in the cache" in encoded(wanted, tmp_path / "6")


def test_a_damaged_file_is_named_dropped_and_made_anew(
    wanted: Bundle, pictures: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    draw(pictures / "a.png", 1)
    before = batches(wanted, watched(tmp_path / "1")).of(1)[0]
    for kind in ("latents", "text"):
        [file] = (fresh_cache / kind).rglob("*.safetensors")
        file.write_bytes(file.read_bytes()[:-1])
    log = watched(tmp_path / "2")
    after = batches(wanted, log).of(1)[0]
    damaged = [e for e in log.of(Noted) if e.level == "warning"]
    assert len(damaged) == 2
    assert "a file of the cache is damaged, and its entries are made anew" in damaged[0].text
    assert torch.equal(before.latents, after.latents)
    assert torch.equal(before.conditions.hidden, after.conditions.hidden)
    assert [s.damaged for s in shelves.shelves(fresh_cache)] == [0, 0]


def test_what_is_encoded_when_someone_stops_is_kept(
    wanted: Bundle, pictures: Path, tmp_path: Path, fresh_cache: Path
) -> None:
    for number in range(5):
        draw(pictures / f"{number}.png", number)
    asked = iter([False] * 6 + [True] * 9)
    assert prepared(wanted, watched(tmp_path / "1"), lambda: next(asked)) is None
    told = encoded(wanted, tmp_path / "2")
    assert "latents: 2 pictures encoded, 3 were in the cache" in told


def test_an_entry_that_is_cut_while_it_is_used_names_its_file(tmp_path: Path) -> None:
    held = cache.Cache(tmp_path, "latents", "a vae", "pico")
    name = cache.picture_name("ab" * 32, View(fit=fit(40, 40, 32, 8)))
    with held:
        held.put(name, {"mean": torch.ones(4, 8, 8)})
    [file] = shards.files(shelves.place(tmp_path, "latents", "a vae"))
    assert held.read(name)["mean"].equal(torch.ones(4, 8, 8))
    file.write_bytes(b"")
    with pytest.raises(LorakitError, match=file.name) as failure:
        held.read(name)
    assert failure.value.code == ExitCode.DATA
    held.close()


def test_a_cache_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LorakitError, match=r"cannot be written: .*file") as failure:
        cache.Cache(tmp_path / "file", "latents", "a vae", "pico")
    assert failure.value.code == ExitCode.DATA
    assert "LORAKIT_CACHE" in failure.value.hint


@pytest.mark.parametrize("memory", [{}, {"cache_latents": False}])
def test_a_picture_that_changes_under_way_never_gets_into_the_cache(
    wanted: Bundle, pictures: Path, tmp_path: Path, fresh_cache: Path, memory: dict[str, bool]
) -> None:
    for number in range(3):
        draw(pictures / f"{number}.png", number)
    wanted = changed(wanted, memory=memory, train={"steps": 9})

    def change() -> bool:
        draw(pictures / "2.png", 200)
        return False

    def learn() -> None:
        ready = prepared(wanted, watched(tmp_path / "run"), change)
        assert ready is not None
        ready.material.latents.fetch(0, 2)

    with pytest.raises(LorakitError, match=r"2\.png has been changed") as failure:
        learn()
    assert failure.value.code == ExitCode.DATA
    assert sum(s.entries for s in shelves.shelves(fresh_cache) if s.kind == "latents") == (
        0 if memory else 2
    )
