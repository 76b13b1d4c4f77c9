import numpy as np


def weight_bytes(tensors):
    widths = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
    total, seen = np.int64(0), set()
    for tensor in tensors:
        if tensor[3] not in seen:
            seen.add(tensor[3])
            total += np.prod(tensor[1], dtype=np.int64) * widths[tensor[2]]
    return total
