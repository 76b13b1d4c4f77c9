import numpy as np


def measures(sent_ns, token_ns):
    ms = (np.array(token_ns, dtype=float) - sent_ns) / 1e6
    gaps = np.diff(ms)
    return {
        "ttft_ms": ms[0] if ms.size else None,
        "tpot_ms": gaps.mean() if gaps.size else None,
        "longest_gap_ms": gaps.max() if gaps.size else None,
        "prefill_share": ms[0] / ms[-1] if ms.size else None,
    }
