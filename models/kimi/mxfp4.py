"""MXFP4 as checkpoints hold it: E2M1 values, two to a byte with the even one in the low nibble, along the input
dimension, and one E8M0 scale (a power of two, 2^(byte - 127)) for each 32 of them. (OCP Microscaling Formats 1.0.)"""
import numpy as np

GROUP = 32
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
BIAS = 127


def dequantize(packed, scale):
    """fp32 [..., n] of packed bytes [..., n/2] and scale bytes [..., n/32]. Scale 255 is NaN, as the format has it."""
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
    exponents = np.where(scale == 255, np.nan, np.ldexp(np.float32(1), np.minimum(scale, 254).astype(np.int32) - BIAS))
    return E2M1[nibbles] * np.repeat(exponents, GROUP, axis=-1)


def quantize(values):
    """(packed [..., n/2], scale [..., n/32]) of fp32 [..., n]: the scale brings each group's largest value to 4..8, which the
    format's own rule (floor of log2 of the maximum, less 2) gives; values are rounded to the nearest, ties to even."""
    groups = values.astype(np.float32).reshape(*values.shape[:-1], -1, GROUP)
    largest = np.abs(groups).max(-1)
    exponent = np.floor(np.log2(np.where(largest > 0, largest, 1))).astype(np.int32) - 2
    scale = np.clip(exponent + BIAS, 0, 254).astype(np.uint8)
    scaled = np.abs(groups) * np.exp2(BIAS - scale.astype(np.float32))[..., None]
    middles = (E2M1[:7] + E2M1[1:8]) / 2
    code = np.searchsorted(middles, scaled, side="left")  # a tie goes down ...
    tie = (code < 7) & (scaled == middles[np.minimum(code, 6)])
    code = np.where(tie & (code % 2 == 1), code + 1, code)  # ... or up to the even code
    code = (code | np.where(groups < 0, 8, 0)).astype(np.uint8).reshape(values.shape)
    return code[..., 0::2] | code[..., 1::2] << 4, scale
