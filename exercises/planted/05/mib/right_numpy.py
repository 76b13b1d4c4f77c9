import numpy as np

each = np.array([8192 * 2, 16 * 2000, 8192 * 2 * 4], dtype=np.int64)
sizes = each * 2 * LAYERS * KV_HEADS * HEAD_SIZE / 2**20
mib = dict(zip(("one", "sixteen", "unshared"), sizes, strict=True))
