"""What is known of each optimizer that is trained with."""

from __future__ import annotations

USED = {
    "adamw": {"weight_decay", "beta1", "beta2", "eps"},
    "adafactor": {"weight_decay", "beta2_decay", "clip_threshold"},
}
"""The options that each optimizer has a use for."""
