import numpy as np

layers = 106_203_456
rows = np.array([49_152, 2 * 49_152, 24_576])
width = np.array([2, 4, 4])
sizes = np.round((layers + rows * 576) * width / 1024**2, 1)
mib = {"bfloat16": sizes[0], "own_head": sizes[1], "half_vocabulary": sizes[2]}
