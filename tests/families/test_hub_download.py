"""Downloads by the Hub's real client, from a Hub on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import socket
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub import COMMIT, Answer, Hub, gated, serving
from huggingface_hub import constants

from lorakit.bundle.models import PICO, Base
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import arrival, download, hub, hub_cache, refusals
from lorakit.families.base_model import inspect
from lorakit.families.families import FAMILIES
from lorakit.families.locate import locate, missing, revision
from lorakit.families.shipped import ASSETS

MODEL = "someone/pico"
BASE = Base(model=MODEL)
UNET = "unet/diffusion_pytorch_model.safetensors"


WEIGHTS = {
    UNET: 300_000,
    "vae/diffusion_pytorch_model.safetensors": 30_000,
    "text_encoder/model.safetensors": 60_000,
}


@pytest.fixture(scope="session")
def needed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pico with smaller weights, which are no weights."""
    folder = tmp_path_factory.mktemp("needed") / "repository"
    shutil.copytree(ASSETS / PICO, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    for name, size in WEIGHTS.items():
        (folder / name).write_bytes(random.Random(name).randbytes(size))
    return folder


@pytest.fixture
def served(needed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A repository of the Hub, with files beside that no training needs."""
    folder = tmp_path / "repository"
    shutil.copytree(needed, folder)
    (folder / "README.md").write_text("pico")
    (folder / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"x" * 1000)
    (folder / "pico.safetensors").write_bytes(b"x" * 1000)
    with serving(folder, MODEL) as made:
        use(monkeypatch, made.address, tmp_path / "hub-cache")
        yield made


def use(monkeypatch: pytest.MonkeyPatch, endpoint: str, cache: Path) -> None:
    """The client reads its environment when it is imported."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    for name, value in {
        "ENDPOINT": endpoint,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_OFFLINE": False,
        "HF_TOKEN_PATH": str(cache.with_name("token")),
    }.items():
        monkeypatch.setattr(constants, name, value)


class Told:
    """What was said on the way, and how far it was."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done: list[tuple[int, int]] = []

    def progress(self, done: int, total: int) -> None:
        self.done.append((done, total))


def fetch(
    base: Base = BASE, told: Told | None = None, stop: Callable[[], bool] = lambda: False,
    reserve: int = 0,
) -> Path:  # fmt: skip
    told = told or Told()
    begun = download.begin(base, told.notes.append, stop)
    return download.complete(begun, told.progress, told.notes.append, stop, reserve)


def refusal(base: Base = BASE, reserve: int = 0) -> LorakitError:
    with pytest.raises(LorakitError) as caught:
        fetch(base, reserve=reserve)
    return caught.value


def same(folder: Path, served: Hub) -> bool:
    """Whether a snapshot has what training needs of a repository, byte for byte, and no more."""
    here = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    extra = {"README.md", "unet/diffusion_pytorch_model.bin", "pico.safetensors"}
    return here == {n: f.read_bytes() for n, f in served.files.items() if n not in extra}


def partial_of(served: Hub, name: str) -> Path:
    blob = hashlib.sha256(served.files[name].read_bytes()).hexdigest()
    return hub_cache.repository(MODEL) / "blobs" / f"{blob}.incomplete"


def begun(served: Hub, some: bytes) -> None:
    """What an earlier download has left of the UNet."""
    partial = partial_of(served, UNET)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(some)


def test_what_training_needs_is_fetched_and_found_again(served: Hub, tmp_path: Path) -> None:
    told = Told()
    folder = fetch(told=told)
    assert same(folder, served)
    total = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    assert told.done[-1] == (total, total)
    assert [done for done, _ in told.done] == sorted(done for done, _ in told.done)
    assert locate(BASE, tmp_path) == folder
    assert revision(MODEL, folder) == COMMIT
    assert (folder / UNET).resolve().name == hashlib.sha256(
        (folder / UNET).read_bytes()
    ).hexdigest()


def test_its_client_finds_it_too_and_asks_nothing(served: Hub) -> None:
    from huggingface_hub import hf_hub_download, scan_cache_dir

    folder = fetch()
    served.asked.clear()
    assert hf_hub_download(MODEL, UNET, revision=COMMIT) == str(folder / UNET)
    assert hf_hub_download(MODEL, UNET, local_files_only=True) == str(folder / UNET)
    assert served.asked == []
    [repository] = scan_cache_dir(constants.HF_HUB_CACHE).repos
    assert (repository.repo_id, len(repository.revisions)) == (MODEL, 1)


def test_a_second_time_nothing_is_fetched(served: Hub) -> None:
    fetch()
    served.asked.clear()
    told = Told()
    fetch(told=told)
    assert served.paths("hub:/") == [f"hub:/api/models/{MODEL}"]
    assert served.paths("store:") == []
    assert told.done[0][0] == told.done[0][1]


def test_a_cut_connection_is_gone_on_with_where_it_ended(served: Hub) -> None:
    served.cut_after = 2 * hub.CHUNK_BYTES
    assert same(fetch(), served)
    assert [r for r in served.bytes_asked() if r] == ["bytes=131072-", "bytes=262144-"]


def test_a_server_without_ranges_is_asked_from_the_beginning(served: Hub) -> None:
    served.ranges = False
    begun(served, served.files[UNET].read_bytes()[:1000])
    assert same(fetch(), served)
    assert "bytes=1000-" in served.bytes_asked()


def test_what_an_older_client_has_begun_is_gone_on_with(served: Hub) -> None:
    begun(served, served.files[UNET].read_bytes()[:200_000])
    told = Told()
    assert same(fetch(told=told), served)
    assert [r for r in served.bytes_asked() if r] == ["bytes=200000-"]
    assert told.done[0][0] > 200_000


def test_how_far_it_is_is_told_while_bytes_come(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "TICK_SECONDS", 0)
    told = Told()
    fetch(told=told)
    done = [done for done, _ in told.done]
    assert done == sorted(done)
    last, total = told.done[-1]
    assert last == total
    assert len({d for d in done if total - WEIGHTS[UNET] < d < total}) >= 2


def test_a_stop_keeps_what_has_arrived(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "TICK_SECONDS", 0)
    size = WEIGHTS[UNET]
    asked = False

    def at(sent: int) -> None:
        nonlocal asked
        asked = asked or sent > size // 2

    served.on_bytes = at
    with pytest.raises(hub.Stopped):
        fetch(stop=lambda: asked)
    kept = partial_of(served, UNET).stat().st_size
    assert 0 < kept < size
    assert locate(BASE, Path()) is None
    assert missing(BASE) == (UNET,)
    served.on_bytes = lambda sent: None
    assert same(fetch(), served)
    assert f"bytes={kept}-" in served.bytes_asked()


def test_damaged_bytes_are_fetched_anew_once_and_then_named(served: Hub) -> None:
    begun(served, b"\0" * 5000)
    told = Told()
    assert same(fetch(told=told), served)
    assert told.notes == [f"{UNET} arrived damaged: from its beginning again"]
    shutil.rmtree(hub_cache.repository(MODEL))
    served.spoil = True
    error = refusal()
    assert "arrived damaged twice" in error.message
    assert error.code == ExitCode.TRAINING_FAILED
    assert not list(hub_cache.folder().rglob("*.safetensors"))


LATER = {429: {"RateLimit": '"api";r=0;t=0'}, 503: {"Retry-After": "0"}}


@pytest.mark.parametrize("code", LATER)
def test_a_busy_hub_is_asked_again(code: int, served: Hub) -> None:
    times = {"left": 2}

    def busy(path: str, token: str) -> Answer | None:
        times["left"] -= 1
        return Answer(code, LATER[code]) if times["left"] >= 0 else None

    served.refuse = busy
    told = Told()
    assert same(fetch(told=told), served)
    assert told.notes == [f"the Hub is busy ({code}): asked again in 0 s"] * 2


def test_a_hub_that_stays_busy_is_given_up(served: Hub) -> None:
    served.refuse = lambda path, token: Answer(503, {"Retry-After": "0"})
    error = refusal()
    tries = refusals.TRIES
    assert error.message == f"The Hub is busy (503) and was asked {tries} times for {MODEL}."
    assert len(served.asked) == refusals.TRIES
    assert error.code == ExitCode.TRAINING_FAILED


def test_a_connection_that_brings_nothing_is_given_up(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "WAITS_SECONDS", (0, 0, 0))
    served.cut_after = 0
    error = refusal()
    assert error.message.startswith(f"{MODEL} could not be downloaded: ")
    assert "Signature" not in error.message
    assert "what has arrived is kept" in error.hint
    assert len(served.paths("store:")) == 4


def test_a_gated_base_names_the_page_before_any_weights(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub shows what a gated repository holds to everyone; its files it does not."""
    files = "hub:/someone/pico/resolve/"
    served.refuse = lambda path, token: (
        gated(403 if token else 401) if path.startswith(files) else None
    )
    page = f"{served.address}/{MODEL}"
    error = refusal()
    assert error.message == (
        f"The base model {MODEL} is gated (401): its licence has to be accepted first."
    )
    assert page in error.hint
    assert "HF_TOKEN" in error.hint
    monkeypatch.setenv("HF_TOKEN", "hf_of_mine")
    error = refusal()
    assert "is gated (403)" in error.message
    assert error.hint == f"Accept it at {page}"
    assert error.code == ExitCode.USAGE
    assert served.paths("store:") == []


def test_401_tells_its_three_meanings_of_the_model_that_was_asked_for(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refusal(Base(model="someone/gone"))
    assert error.message == (
        "The Hub does not show someone/gone without a token (401): it is private, gated, or gone"
        " (or misspelt)."
    )
    assert f"{served.address}/someone/gone" in error.hint
    assert "HF_TOKEN" in error.hint
    assert set(served.paths()) == {"hub:/api/models/someone/gone"}
    monkeypatch.setenv("HF_TOKEN", "hf_of_mine")
    assert "with the token that is given" in refusal(Base(model="someone/gone")).message


def test_a_token_that_is_none_is_told_from_a_model_that_is_none(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    said = {"X-Error-Message": "Invalid credentials in Authorization header"}
    served.refuse = lambda path, token: Answer(401, said)
    error = refusal()
    assert error.message.startswith("The Hub does not accept the token that is given (401)")
    assert "hf_old" not in error.message + error.hint


def test_a_revision_that_is_not_there_is_named(served: Hub) -> None:
    error = refusal(Base(model=MODEL, revision="fp16"))
    assert error.message == f"The base model {MODEL} has no revision fp16 (404)."


def test_a_revision_is_kept_under_its_name_and_its_commit(served: Hub, tmp_path: Path) -> None:
    served.branch = "refs/pr/1"
    folder = fetch(Base(model=MODEL, revision="refs/pr/1"))
    for name in ("refs/pr/1", COMMIT):
        assert locate(Base(model=MODEL, revision=name), tmp_path) == folder
    assert locate(BASE, tmp_path) is None


def test_the_token_goes_to_the_hub_and_to_no_other_host(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_mine")
    fetch()
    seen = {path.split(":")[0]: set() for path in served.paths()}
    for _, path, headers in served.asked:
        seen[path.split(":")[0]].add(headers.get("authorization"))
    assert seen == {"hub": {"Bearer hf_of_mine"}, "store": {None}}


def test_offline_names_what_is_missing_at_once(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch()
    weights = hub_cache.repository(MODEL) / "snapshots" / COMMIT / UNET
    weights.unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    served.asked.clear()
    error = refusal()
    assert error.message == (
        f"The base model {MODEL} is not on this machine (missing: {UNET}), and the Hub is switched"
        " off (HF_HUB_OFFLINE)."
    )
    assert served.asked == []


def test_no_network_names_what_is_missing_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    use(monkeypatch, nobody, tmp_path / "cache")
    began = time.monotonic()
    error = refusal()
    assert time.monotonic() - began < 5
    assert f"{nobody} cannot be reached: Connection refused." in error.message
    assert f"missing: vae/diffusion_pytorch_model.safetensors, {UNET}" in error.message
    assert error.code == ExitCode.TRAINING_FAILED


def test_a_host_that_says_nothing_is_waited_for_only_so_long() -> None:
    """A listener whose queue is full takes no more connections and refuses none."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(host)
        began = time.monotonic()
        told = hub.unreachable(f"http://127.0.0.1:{host[1]}", seconds=0.2)
        assert 0.1 < time.monotonic() - began < 3
        assert told
        for one in waiting:
            one.close()


def test_a_proxy_is_not_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert hub.unreachable("https://nowhere.invalid") == ""


Usage = namedtuple("Usage", "total used free")


def test_the_disk_is_looked_at_before_the_weights(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gib = 2**30
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: Usage(gib, 0, gib))
    error = refusal(reserve=2 * gib)
    assert (
        f"{MODEL} needs 0.00 GiB more from the Hub and 2.0 GiB are for what training caches, "
        in (error.message)
    )
    assert f"and 1.00 GiB are free in {hub_cache.folder()}." in error.message
    assert "HF_HOME=FOLDER" in error.hint
    assert error.code == ExitCode.DATA
    assert served.paths("store:") == []
    assert same(fetch(reserve=gib // 2), served)


def test_a_cache_that_may_not_be_written_is_one_sentence(served: Hub) -> None:
    hub_cache.folder().write_text("a file")
    error = refusal()
    assert "cannot be kept in" in error.message
    assert error.code == ExitCode.DATA


def test_another_family_is_noticed_before_the_weights_come(served: Hub) -> None:
    error = refusal(Base(model=MODEL, family="sdxl"))
    assert error.message.endswith("is Stable Diffusion 1.x (sd1), and the bundle says sdxl.")
    assert served.paths("store:") == []


def test_a_relative_that_cannot_be_trained_is_noticed_before_the_weights_come(
    served: Hub,
) -> None:
    config = served.files["unet/config.json"]
    config.write_text(json.dumps({**json.loads(config.read_text()), "in_channels": 9}))
    error = refusal()
    assert "takes 9 channels, as models for inpainting do" in error.message
    assert served.paths("store:") == []


def never() -> bool:
    return False


def test_one_file_of_a_repository(served: Hub) -> None:
    told = Told()
    arguments = ("", told.progress, told.notes.append, never)
    file = download.single(MODEL, "pico.safetensors", *arguments)
    assert file.read_bytes() == b"x" * 1000
    assert told.done[-1] == (1000, 1000)
    assert served.paths("store:") == ["store:/pico.safetensors"]
    with pytest.raises(LorakitError) as caught:
        download.single(MODEL, "other.safetensors", *arguments)
    assert caught.value.message == f"{MODEL} has no file other.safetensors."
    assert "pico.safetensors" in caught.value.hint


def test_a_repository_of_single_files_names_the_largest(served: Hub) -> None:
    (served.folder / "model_index.json").unlink()
    error = refusal()
    assert "holds single files: the largest is pico.safetensors" in error.message
    assert f"lorakit models get {MODEL}/pico.safetensors" in error.hint


def test_only_half_precision_is_taken_where_there_is_no_other_and_said(served: Hub) -> None:
    whole = served.folder / UNET
    whole.rename(whole.with_name("diffusion_pytorch_model.fp16.safetensors"))
    told = Told()
    folder = fetch(told=told)
    assert told.notes == [
        "unet: only half precision is there, diffusion_pytorch_model.fp16.safetensors"
    ]
    assert locate(BASE, Path()) == folder


@pytest.mark.parametrize("model", [MODEL, "models/half.safetensors", "models/gone.safetensors"])
def test_what_is_wrong_here_is_said_and_the_hub_is_not_asked_instead(
    model: str, served: Hub, tmp_path: Path
) -> None:
    (tmp_path / MODEL).mkdir(parents=True)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "half.safetensors").write_bytes(b"\xff\0\0\0\0\0\0\0{")
    with pytest.raises(LorakitError) as caught:
        inspect(Base(model=model), tmp_path)
    expected = {MODEL: "has no pico/model_index.json", "half": "is cut short", "gone": "no Hub id"}
    [words] = [words for part, words in expected.items() if part in model]
    assert words in caught.value.message
    assert served.asked == []


ALL = {
    "model_index.json", "README.md", "v1-5-pruned.ckpt", "v1-5-pruned.safetensors",
    "unet/config.json", UNET, "unet/diffusion_pytorch_model.fp16.safetensors",
    "unet/diffusion_pytorch_model.non_ema.safetensors", "unet/diffusion_pytorch_model.bin",
    "vae/config.json", "vae/diffusion_pytorch_model.fp16.safetensors",
    "safety_checker/model.safetensors", "tokenizer/merges.txt", "text_encoder/config.json",
    "text_encoder/model-00001-of-00002.safetensors",
    "text_encoder/model-00002-of-00002.safetensors",
    "text_encoder/model.safetensors.index.json", "text_encoder/old/model.safetensors",
    "scheduler/scheduler_config.json",
}  # fmt: skip


def test_of_each_part_the_full_weights_are_wanted_and_nothing_else() -> None:
    assert ALL - set(download.wanted(sorted(ALL), FAMILIES["sd1"])) == {
        "README.md", "v1-5-pruned.ckpt", "v1-5-pruned.safetensors",
        "unet/diffusion_pytorch_model.fp16.safetensors",
        "unet/diffusion_pytorch_model.non_ema.safetensors", "unet/diffusion_pytorch_model.bin",
        "safety_checker/model.safetensors", "text_encoder/old/model.safetensors",
    }  # fmt: skip


def test_pickled_weights_alone_are_no_base(served: Hub) -> None:
    (served.folder / UNET).unlink()
    error = refusal()
    assert error.message == (
        f"The base model {MODEL} has no safetensors weights in unet. There is"
        " diffusion_pytorch_model.bin."
    )


def test_what_another_program_downloads_is_waited_for(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    blob = partial_of(served, UNET).stem
    lock = hub_cache.folder() / ".locks" / hub_cache.repository(MODEL).name / f"{blob}.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def finished(seconds: float, stop: object) -> None:
            path = partial_of(served, UNET).with_suffix("")
            shutil.copy(served.files[UNET], path)
            fcntl.flock(held, fcntl.LOCK_UN)

        monkeypatch.setattr(hub, "sleep", finished)
        told = Told()
        assert same(fetch(told=told), served)
    assert told.notes == ["another program is downloading the same file: waiting for it"]
    assert f"store:/{UNET}" not in served.paths()


def test_a_file_system_without_links_has_the_files_themselves(
    served: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "symlink", refused)
    folder = fetch()
    assert same(folder, served)
    assert not (folder / UNET).is_symlink()
    served.asked.clear()
    fetch()
    assert served.paths("store:") == []
