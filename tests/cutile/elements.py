"""Element types: their names in cuTile and in `tessera run`, and the numbers that their bits mean in NumPy.

NumPy has no bf16 and no 8-bit floats. Arrays of these are unsigned integers of their bits, as in the files of `tessera run`.
"""
import dataclasses

import cuda.tile as ct
import numpy as np


@dataclasses.dataclass(frozen=True)
class Element:
    name: str  # as `tessera run` writes it in `f32[4,8]`; for types that .npy files lack, that of their bits
    dtype: ct.DType
    stored: type  # in files
    exponent_bits: int = 0  # of floats that NumPy does not have
    mantissa_bits: int = 0
    tolerance: float = 0.0  # relative, for the result of a few operations; 0: equal

    @property
    def is_float(self):
        return self.tolerance > 0

    def numbers(self, stored):
        """The numbers that stored bits mean: f64, or the integers themselves."""
        if not self.is_float:
            return stored
        if not self.exponent_bits:
            return stored.astype(np.float64)
        bits = stored.astype(np.int64)
        bias = (1 << (self.exponent_bits - 1)) - 1
        mantissa = bits & ((1 << self.mantissa_bits) - 1)
        exponent = bits >> self.mantissa_bits & ((1 << self.exponent_bits) - 1)
        sign = np.where(bits >> (self.exponent_bits + self.mantissa_bits) & 1, -1.0, 1.0)
        normal = exponent > 0
        significand = np.where(normal, 1 << self.mantissa_bits, 0) + mantissa
        return sign * np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - self.mantissa_bits)

    def random(self, random, shape, scale):
        """Stored numbers between -scale and scale, integers from -scale to scale."""
        if self.stored is np.bool_:
            return random.integers(0, 2, shape).astype(np.bool_)
        if not self.is_float:
            low = 0 if np.issubdtype(self.stored, np.unsignedinteger) else -int(scale)
            return random.integers(low, int(scale), shape, endpoint=True).astype(self.stored)
        if not self.exponent_bits:
            return random.uniform(-scale, scale, shape).astype(self.stored)
        codes = np.arange(1 << (1 + self.exponent_bits + self.mantissa_bits)).astype(self.stored)
        near = codes[np.abs(self.numbers(codes)) <= scale]
        if self.stored is np.uint8:
            return random.choice(near, shape)
        # Codes are denser near zero than numbers are, so bf16 is what is left of f32.
        return (random.uniform(-scale, scale, shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


ELEMENTS = {
    "f64": Element("f64", ct.float64, np.float64, tolerance=1e-13),
    "f32": Element("f32", ct.float32, np.float32, tolerance=2e-6),
    "f16": Element("f16", ct.float16, np.float16, tolerance=2e-3),
    "bf16": Element("u16", ct.bfloat16, np.uint16, 8, 7, tolerance=1e-2),
    "f8e4m3": Element("u8", ct.float8_e4m3fn, np.uint8, 4, 3, tolerance=0.07),
    "f8e5m2": Element("u8", ct.float8_e5m2, np.uint8, 5, 2, tolerance=0.13),
    "bool": Element("bool", ct.bool_, np.bool_),
}
for bits in (8, 16, 32, 64):
    ELEMENTS[f"i{bits}"] = Element(f"i{bits}", getattr(ct, f"int{bits}"), getattr(np, f"int{bits}"))
    ELEMENTS[f"u{bits}"] = Element(f"u{bits}", getattr(ct, f"uint{bits}"), getattr(np, f"uint{bits}"))
