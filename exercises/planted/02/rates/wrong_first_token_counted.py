# Fails: test_rate_after_first
def rates(requests):
    start = min(r["sent_s"] for r in requests)
    window = max(r["last_token_s"] for r in requests) - start
    new = sum(r["new_tokens"] for r in requests)
    prompt = sum(r["prompt_tokens"] for r in requests)
    each = [
        r["new_tokens"] / (r["last_token_s"] - r["sent_s"]) for r in requests
    ]
    later = new
    spent = sum(r["last_token_s"] - r["first_token_s"] for r in requests)
    return {
        "all_tokens": (prompt + new) / window,
        "new_tokens": new / window,
        "mean_of_requests": sum(each) / len(each),
        "after_first": later / spent if later else None,
    }
