"""lorakit: a terminal wizard and trainer for LoRAs of Stable Diffusion models."""

__version__ = "0.1.0"
