# Fails: test_weight_bytes, test_weight_bytes_shared
def weight_bytes(tensors):
    sizes = {a: sum(shape) * BYTES[dtype] for _, shape, dtype, a in tensors}
    return sum(sizes.values())
