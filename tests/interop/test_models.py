"""The base models that a machine has, in made homes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from single_files import small_shapes, write_header

from lorakit.bundle.models import PICO
from lorakit.bundle.read import parse
from lorakit.families import hub_cache
from lorakit.families.shipped import ASSETS
from lorakit.interop import places
from lorakit.interop.models import Model, found
from lorakit.runs.directory import create

COMMIT = "ab" * 20
COMFY = "ComfyUI/models/checkpoints"
WEBUI = "stable-diffusion-webui/models/Stable-diffusion"


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "ROOTS", (tmp_path / "workspace",))


def checkpoint(file: Path, **more: tuple[int, ...]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_header(file, {**small_shapes(), **more})


def kept(model: str, *without: str, ref: str = "main") -> Path:
    """pico in the Hub's cache, less some files."""
    there = hub_cache.repository(model)
    folder = there / "snapshots" / COMMIT
    shutil.copytree(ASSETS / PICO, folder)
    for name in without:
        (folder / name).unlink()
    (there / "refs").mkdir()
    (there / "refs" / ref).write_text(COMMIT)
    return folder


def here(home: Path, **environment: str) -> dict[str, Model]:
    models = found(environment, home, home / "runs")
    assert len({model.base for model in models}) == len(models)
    return {model.base: model for model in models}


def test_a_bare_machine_has_pico(tmp_path: Path) -> None:
    [pico] = here(tmp_path).values()
    assert (pico.base, pico.where, pico.usable) == (PICO, "lorakit", True)
    assert (pico.told.family, pico.told.prediction) == ("sd1", "epsilon")
    assert pico.told.size_bytes == sum(f.stat().st_size for f in pico.path.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("folder", "where", "environment"),
    [
        (COMFY, "ComfyUI", {}),
        (WEBUI, "A1111", {}),
        ("stable-diffusion-webui-forge/models/Stable-diffusion", "Forge", {}),
        ("workspace/ComfyUI/models/checkpoints", "ComfyUI", {}),
        ("apps/comfy/models/checkpoints", "ComfyUI", {"COMFYUI_PATH": "{home}/apps/comfy"}),
        ("data/models", "folder", {"LORAKIT_MODELS": "/nowhere:{home}/data"}),
    ],
)
def test_checkpoints_are_found_where_programs_keep_them(
    folder: str, where: str, environment: dict[str, str], tmp_path: Path
) -> None:
    file = checkpoint(
        tmp_path / folder / "sub" / "a [v] model.safetensors", v_pred=(0,), ztsnr=(0,)
    )
    told = {name: value.format(home=tmp_path) for name, value in environment.items()}
    model = here(tmp_path, **told)[str(file)]
    assert (model.where, model.usable, model.path) == (where, True, file)
    assert (model.told.family, model.told.prediction, model.told.zero_snr) == (
        "sd1", "v_prediction", True,
    )  # fmt: skip
    assert "captions 48 wide" in model.told.evidence


def test_what_is_wrong_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    folder = tmp_path / COMFY
    good = checkpoint(folder / "good.safetensors")
    half = folder / "half.safetensors"
    half.write_bytes(good.read_bytes()[:-1000])
    (folder / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    (folder / "old.ckpt").write_bytes(b"PK\x03\x04" + bytes(100))
    write_header(folder / "lora.safetensors", {"lora_unet_x.lora_down.weight": (4, 320)})
    (folder / "preview.png").write_bytes(b"")
    (folder / ".hidden.safetensors").write_bytes(b"")
    models = here(tmp_path)
    wrong = {Path(base).name: m.told.problem for base, m in models.items() if not m.usable}
    assert sorted(wrong) == [
        "half.safetensors", "lora.safetensors", "old.ckpt", "pointer.safetensors",
    ]  # fmt: skip
    for name, words in {
        "half.safetensors": "cut short",
        "lora.safetensors": "is a LoRA",
        "old.ckpt": "pickled",
        "pointer.safetensors": "LFS pointer",
    }.items():
        assert words in wrong[name]
    assert models[str(good)].usable


def test_links_are_followed_and_nothing_is_listed_twice(tmp_path: Path) -> None:
    file = checkpoint(tmp_path / COMFY / "a.safetensors")
    other = tmp_path / WEBUI
    other.mkdir(parents=True)
    (other / "comfy").symlink_to(file.parent)
    (other / "again.safetensors").symlink_to(file)
    (file.parent / "loop").symlink_to(file.parent)
    assert set(here(tmp_path)) == {PICO, str(file)}


def test_a_diffusers_folder_is_one_model(tmp_path: Path) -> None:
    folder = tmp_path / COMFY / "converted"
    shutil.copytree(ASSETS / PICO, folder)
    assert set(here(tmp_path)) == {PICO, str(folder)}


EXTRA = """
# comments stay
a111:
    base_path: {base}
    checkpoints: |
        models/one
        models/two
    loras: models/Lora
comfyui:
    checkpoints: {other}
"""


def test_comfyui_names_further_folders(tmp_path: Path) -> None:
    base, other = tmp_path / "base", tmp_path / "other"
    files = [
        checkpoint(folder / "a.safetensors")
        for folder in (base / "models/one", base / "models/two", other)
    ]
    checkpoint(base / "models/Lora" / "a.safetensors")
    extra = tmp_path / "ComfyUI" / "extra_model_paths.yaml"
    extra.parent.mkdir()
    extra.write_text(EXTRA.format(base=base, other=other))
    assert set(here(tmp_path)) == {PICO, *map(str, files)}


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "a: 1\nb: {checkpoints: [x]}", "", "\0"])
def test_a_damaged_file_of_folders_names_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "extra.yaml"
    file.write_text(text)
    assert [p for p in places.extra_folders(file) if p.is_dir()] == []


def test_of_the_hubs_cache_what_is_a_base(tmp_path: Path) -> None:
    kept("someone/whole")
    kept("someone/at-a-tag", ref="v1")
    kept("someone/half", "unet/diffusion_pytorch_model.safetensors", "vae/config.json")
    language = hub_cache.repository("someone/language") / "snapshots" / COMMIT
    language.mkdir(parents=True)
    write_header(language / "model.safetensors", {"model.layers.0.weight": (4, 4)})
    single = checkpoint(
        hub_cache.repository("someone/single") / "snapshots" / COMMIT / "one.safetensors"
    )
    models = here(tmp_path)
    assert set(models) == {
        PICO, "someone/whole", "someone/at-a-tag", "someone/half", str(single),
    }  # fmt: skip
    assert models["someone/whole"].revision == ""
    assert models["someone/at-a-tag"].revision == COMMIT
    half = models["someone/half"].told
    assert half.problem == (
        "someone/half is not complete (missing: unet/diffusion_pytorch_model.safetensors,"
        " vae/config.json)."
    )
    assert half.fix == "lorakit models get someone/half"


def test_paths_that_runs_have_used_are_found_again(tmp_path: Path) -> None:
    file = checkpoint(tmp_path / "elsewhere" / "mine.safetensors")
    for name, model in (("here", file), ("gone", tmp_path / "gone.safetensors"), ("hub", "a/b")):
        text = f'schema = 1\nname = "{name}"\n[base]\nmodel = "{model}"\n'
        bundle = parse(text + '[[dataset.sources]]\npath = "p"\n')
        create(bundle, tmp_path / "runs", tmp_path)
    models = here(tmp_path)
    assert set(models) == {PICO, str(file)}
    assert models[str(file)].where == "used before"


def test_a_folder_that_may_not_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = checkpoint(tmp_path / COMFY / "a.safetensors")
    (tmp_path / COMFY / "shut").mkdir()
    real = Path.iterdir

    def guarded(path: Path) -> object:
        if path.name == "shut":
            raise PermissionError
        return real(path)

    monkeypatch.setattr(Path, "iterdir", guarded)
    assert set(here(tmp_path)) == {PICO, str(file)}
