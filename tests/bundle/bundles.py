"""Bundles for tests: a small one, and hypothesis's idea of all others."""

from __future__ import annotations

from hypothesis import strategies as st

from lorakit.bundle.lock import Lock, LockedBase, LockedDataset, LockedHardware, Result
from lorakit.bundle.models import (
    Adapter,
    Base,
    Bundle,
    Dataset,
    Loss,
    Memory,
    OptimizerOptions,
    Sample,
    Save,
    Source,
    Train,
)  # fmt: skip

SMALL = """\
schema = 1
name = "my-dog"

[[dataset.sources]]
path = "photos"
"""

control = st.characters(categories=("Cc", "Cs"))
paths = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1)
positive = st.integers(1, 4096)


def between(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


digests = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)

locks = st.builds(
    Lock,
    lorakit=st.text(),
    threads=st.integers(1, 999),
    attention=st.text(),
    determinism=st.sampled_from(("bytes", "statistics")),
    kernel=st.text(),
    why=st.text(),
    changed=st.lists(st.text(), max_size=2).map(tuple),
    versions=st.dictionaries(st.text(), st.text(), max_size=3),
    dataset=st.builds(
        LockedDataset, digest=digests, pictures=st.lists(st.text(), max_size=3).map(tuple)
    ),
    base=st.builds(LockedBase, digest=st.just("") | digests, revision=st.text()),
    hardware=st.builds(LockedHardware, device=st.text()),
    result=st.none() | st.builds(Result, digest=digests, step=positive),
)

bundles = st.builds(
    Bundle,
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,79}", fullmatch=True),
    base=st.builds(Base, model=paths, revision=st.text()),
    dataset=st.builds(
        Dataset,
        sources=st.lists(
            st.builds(Source, path=paths, repeats=st.integers(1, 9999), trigger=st.text()),
            min_size=1,
            max_size=3,
        ).map(tuple),
        resolution=st.integers(4, 512).map(lambda n: n * 8),
        buckets=st.booleans(),
    ),
    adapter=st.builds(Adapter, rank=st.integers(1, 1024), alpha=between(1e-9, 4096)),
    train=st.builds(
        Train,
        steps=positive,
        learning_rate=between(1e-300, 10),
        optimizer_options=st.builds(OptimizerOptions, beta2_decay=between(-1, -1e-9)),
        seed=st.integers(0, 2**63 - 1),
    ),
    loss=st.builds(Loss, snr_gamma=between(0, 100)),
    memory=st.builds(Memory, checkpointing=st.sampled_from(("none", "full")) | st.integers(1, 999)),
    sample=st.builds(
        Sample, prompts=st.lists(st.text(), max_size=4).map(tuple), negative=st.text()
    ),
    save=st.builds(Save, keep=positive),
    lock=st.none() | locks,
)
