import pandas as pd


def rates(requests):
    table = pd.DataFrame(requests)
    window = table["last_token_s"].max() - table["sent_s"].min()
    busy = table["last_token_s"] - table["sent_s"]
    after = table[table["new_tokens"] > 1]
    decode = (after["last_token_s"] - after["first_token_s"]).sum()
    return {
        "all_tokens": table[["prompt_tokens", "new_tokens"]].sum().sum()
        / window,
        "new_tokens": table["new_tokens"].sum() / window,
        "mean_of_requests": (table["new_tokens"] / busy).mean(),
        "after_first": (after["new_tokens"] - 1).sum() / decode
        if len(after)
        else None,
    }
