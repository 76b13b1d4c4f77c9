import numpy as np

prefill = np.array([410.0, 140.0, 70.0, 140.0])
gaps = np.array([7, 399, 399, 399])
each = np.array([55.0, 55.0, 55.0, 27.5])
names = ["summary", "story", "story_faster_prefill", "story_faster_decode"]
seconds = dict(zip(names, (prefill + gaps * each) / 1e3, strict=True))
