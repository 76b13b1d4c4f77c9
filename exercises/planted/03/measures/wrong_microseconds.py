# Fails: test_ttft, test_tpot, test_longest_gap
def measures(sent_ns, token_ns):
    n = len(token_ns)
    if n == 0:
        names = ("ttft_ms", "tpot_ms", "longest_gap_ms", "prefill_share")
        return dict.fromkeys(names)
    ttft = token_ns[0] - sent_ns
    total = token_ns[-1] - sent_ns
    gaps = [token_ns[i] - token_ns[i - 1] for i in range(1, n)]
    return {
        "ttft_ms": ttft / 1e3,
        "tpot_ms": sum(gaps) / (n - 1) / 1e3 if gaps else None,
        "longest_gap_ms": max(gaps) / 1e3 if gaps else None,
        "prefill_share": ttft / total,
    }
