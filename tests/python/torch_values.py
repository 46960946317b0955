"""What the tests of operators of PyTorch share: the package and the device of the command line, values, comparisons."""
import sys
import time

sys.path.insert(0, sys.argv[1])
device = sys.argv[2] if len(sys.argv) > 2 else "cpu"

import torch

#: The largest relative error of one rounding.
ROUNDING = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def values(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).to(device)


def wide(x):
    return x.detach().double() if isinstance(x, torch.Tensor) else x


def close(found, wanted, tolerance, what):
    assert found.shape == wanted.shape, f"{what}: {tuple(found.shape)}, expected {tuple(wanted.shape)}"
    error = ((found.double() - wanted).abs() / (1 + wanted.abs())).max().item() if found.numel() else 0
    assert error <= tolerance, f"{what}: error {error}"  # of NaN, too


def raises(words, call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        assert words in str(error), f"expected '{words}' in: {error}"
        return
    raise AssertionError(f"nothing was thrown; expected: {words}")


def run_all(names):
    tests = [(name, test) for name, test in names.items() if name.startswith("test_")]
    for name, test in tests:
        start = time.process_time()
        test()
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)
    print(f"{len(tests)} tests passed on {device}")
