# Fails: test_weight_bytes
import numpy as np


def weight_bytes(tensors):
    seen = {}
    for _, shape, dtype, where in tensors:
        with np.errstate(all="ignore"):
            values = np.prod(np.array(shape, np.int32), dtype=np.int32)
        seen[where] = int(values) * BYTES[dtype]
    return sum(seen.values())
