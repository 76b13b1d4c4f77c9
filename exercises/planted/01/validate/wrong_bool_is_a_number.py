# Fails: test_validate_new_tokens, test_validate_prompt
def validate(body, context, vocabulary):
    if not isinstance(body, dict) or set(body) != {
        "prompt_ids",
        "max_new_tokens",
    }:
        return "wrong fields"
    prompt, new = body["prompt_ids"], body["max_new_tokens"]
    if not isinstance(prompt, list) or not prompt:
        return "wrong prompt"
    if not all(isinstance(i, int) and 0 <= i < vocabulary for i in prompt):
        return "wrong id"
    if not isinstance(new, int) or new < 1:
        return "wrong count"
    if len(prompt) + new > context:
        return "too long"
    return None
