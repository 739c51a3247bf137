"""A card that is too small is told in numbers: need, gaps, and who holds the rest (B30, B31)."""

from __future__ import annotations

import os
from pathlib import Path

from lorakit.errors import ExitCode
from lorakit.runs.events import FILE, Failed, Log, Tail
from lorakit.train import worker
from lorakit.train.out_of_memory import explain

SHARED = (
    "CUDA out of memory. Tried to allocate 138.00 MiB. GPU 0 has a total capacity of 23.64 GiB of "
    "which 8.44 MiB is free. Process 40122 has 11.90 GiB memory in use. Process 977 has 577.00 MiB "
    "memory in use. Including non-PyTorch memory, this process has 11.16 GiB memory in use. Of the "
    "allocated memory 10.52 GiB is allocated by PyTorch, and 310.41 MiB is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
GAPS = (
    "CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacty of 15.90 GiB of "
    "which 12.44 MiB is free. Including non-PyTorch memory, this process has 15.32 GiB memory in "
    "use. Of the allocated memory 9.12 GiB is allocated by PyTorch, and 5.41 GiB is reserved by "
    "PyTorch but unallocated."
)
HIP = SHARED.replace("CUDA", "HIP").replace("GPU 0", "GPU 0")
CUT = "CUDA out of memory. Tried to allocate 3725.29 GiB. GPU "


def test_others_on_the_card_are_named_with_what_they_hold() -> None:
    told = explain(SHARED, {40122: "ollama", 977: ""}.__getitem__)
    assert told is not None
    what, hint = told
    assert "0.13 GiB more did not fit" in what
    assert "10.52 GiB allocated, 0.30 GiB reserved and not in use, 0.01 GiB free of 23.64" in what
    assert "others hold 12.46 GiB: ollama, process 40122, 11.90 GiB, process 977, 0.56 GiB" in what
    assert hint.startswith("End the other processes")
    assert "expandable_segments" not in hint
    assert explain(HIP, lambda pid: "") is not None


def test_gaps_are_told_from_need() -> None:
    told = explain(GAPS)
    assert told is not None
    what, hint = told
    assert "9.12 GiB allocated, 5.41 GiB reserved and not in use" in what
    assert "others" not in what
    assert "expandable_segments:True" in hint
    assert "checkpointing" in hint


def test_this_process_is_no_other() -> None:
    own = SHARED.replace("Process 40122", f"Process {os.getpid()}")
    told = explain(own, lambda pid: "")
    assert told is not None
    assert "others hold 0.56 GiB: process 977" in told[0]


def test_in_a_container_the_process_that_holds_what_we_hold_is_no_other() -> None:
    host = SHARED.replace("Including non-PyTorch memory, this process", "Process 88231")
    told = explain(host, lambda pid: "")
    assert told is not None
    assert "others hold 12.46 GiB: process 40122, 11.90 GiB, process 977" in told[0]
    alone = host.replace("Process 40122 has 11.90 GiB memory in use. ", "")
    alone = alone.replace("Process 977 has 577.00 MiB memory in use. ", "")
    told = explain(alone, lambda pid: "")
    assert told is not None
    assert "others" not in told[0]
    assert "other processes" not in told[1]


def test_sizes_that_windows_does_not_know_are_not_summed() -> None:
    wsl = SHARED.replace("11.90 GiB memory", "17179869184.00 GiB memory")
    told = explain(wsl, lambda pid: "")
    assert told is not None
    assert "others hold 0.56 GiB: process 977" in told[0]
    assert "17179869184" not in told[0]


def test_a_message_that_says_less_stays_as_it_is() -> None:
    assert explain(CUT) is None
    assert (
        explain("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes") is None
    )


def test_it_is_how_the_run_ends(tmp_path: Path) -> None:
    log = Log(tmp_path / FILE)
    assert worker._crashed(RuntimeError(SHARED), log) == ExitCode.OUT_OF_MEMORY
    (failed,) = [e for e in Tail(tmp_path / FILE).read() if isinstance(e, Failed)]
    assert failed.exit_code == ExitCode.OUT_OF_MEMORY
    assert "others hold 12.46 GiB" in failed.message
    assert worker._crashed(RuntimeError(CUT), log) == ExitCode.OUT_OF_MEMORY
    assert worker._crashed(RuntimeError("no"), log) == ExitCode.TRAINING_FAILED


def test_a_card_that_pytorch_has_no_kernels_for_is_another_matter(tmp_path: Path) -> None:
    log = Log(tmp_path / FILE)
    error = RuntimeError("HIP error: invalid device function\nHIP kernel errors might be ...")
    assert worker._crashed(error, log) == ExitCode.NO_HARDWARE
    (failed,) = [e for e in Tail(tmp_path / FILE).read() if isinstance(e, Failed)]
    assert "invalid device function" in failed.message
    assert "lorakit hardware --probe" in failed.hint
