# Fails: test_weight_bytes_shared
import math


def weight_bytes(tensors):
    kinds = {(shape, dtype) for _, shape, dtype, _ in tensors}
    return sum(math.prod(shape) * BYTES[dtype] for shape, dtype in kinds)
