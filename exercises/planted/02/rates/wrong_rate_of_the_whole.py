# Fails: test_rate_mean_of_requests
def rates(requests):
    start = min(r["sent_s"] for r in requests)
    window = max(r["last_token_s"] for r in requests) - start
    new = sum(r["new_tokens"] for r in requests)
    prompt = sum(r["prompt_tokens"] for r in requests)
    [r["new_tokens"] / (r["last_token_s"] - r["sent_s"]) for r in requests]
    later = sum(r["new_tokens"] - 1 for r in requests)
    spent = sum(r["last_token_s"] - r["first_token_s"] for r in requests)
    return {
        "all_tokens": (prompt + new) / window,
        "new_tokens": new / window,
        "mean_of_requests": new
        / sum(r["last_token_s"] - r["sent_s"] for r in requests),
        "after_first": later / spent if later else None,
    }
