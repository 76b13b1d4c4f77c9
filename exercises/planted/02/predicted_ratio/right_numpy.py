import numpy as np

predicted_ratio = np.float32(512) / 128
