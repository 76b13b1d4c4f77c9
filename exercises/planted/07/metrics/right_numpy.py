import numpy as np

NAMES = ["ttft_ms", "e2e_ms", "tpot_ms", "itl_ms", "inter_chunk_ms"]


def metrics(stream):
    kinds = [event[1] for event in stream]
    chunks = np.array([e[::2] for e in stream if e[1] == "token"], float)
    if not len(chunks) or "done" not in kinds or "error" in kinds:
        return {"failed": np.True_, **dict.fromkeys(NAMES)}
    times, sizes = chunks.T
    n = sizes.sum()
    if any(e[2] != n for e in stream if e[1] == "usage"):
        return {"failed": np.True_, **dict.fromkeys(NAMES)}
    gaps = np.diff(times)
    one = np.maximum(sizes[1:], sizes[:-1]) == 1
    return {
        "failed": np.False_,
        "ttft_ms": times.min(),
        "e2e_ms": times.max(),
        "tpot_ms": np.ptp(times) / (n - 1) if n > 1 else None,
        "itl_ms": gaps[one],
        "inter_chunk_ms": gaps[~one],
    }
