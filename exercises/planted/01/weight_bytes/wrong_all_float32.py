# Fails: test_weight_bytes
import math


def weight_bytes(tensors):
    values = {where: math.prod(shape) for _, shape, _, where in tensors}
    return 4 * sum(values.values())
