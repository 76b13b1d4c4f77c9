"""Two dozen prompts of several lengths and kinds."""

from __future__ import annotations

from pathlib import Path

PASSAGE = Path(__file__).parents[2] / "data" / "prompts" / "passage.txt"
CHAT = (
    "<|im_start|>user\nName three rivers of Europe and one fact about "
    "each.<|im_end|>\n<|im_start|>assistant\n"
)
TEXTS = {
    "gravity": "Gravity is",
    "question": "What is the capital of France?",
    "list": "Shopping list:\n- apples\n- bread\n-",
    "story": "Once upon a time there was a clockmaker who",
    "letter": "Dear Ms. Ortega,\n\nThank you for your letter of 3 May.",
    "python": "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "c": "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i <",
    "sql": "SELECT name, COUNT(*) FROM visits WHERE day >= '2024-01-01' GROUP",
    "json": '{"name": "Ada", "born": 1815, "languages": ["English", "',
    "html": "<ul>\n  <li><a href='/one'>One</a></li>\n  <li>",
    "digits": "1, 1, 2, 3, 5, 8, 13, 21, 34,",
    "sum": "17 + 25 = 42\n8 + 9 = 17\n31 + 14 =",
    "french": "La pluie tombait sur les toits de la ville et",
    "german": "Der Zug nach Norden hatte eine Stunde Verspätung, weil",
    "russian": "Однажды весной, в час небывало жаркого заката,",
    "chinese": "从前有一座山，山上有一座庙，",
    "arabic": "كان يا ما كان في قديم الزمان",
    "emoji": "🙂 means happy, 😢 means sad, and 🎉 means",
    "white space": "  \n\n\t one   two\n\n\n   three\t\t",
    "chat": CHAT,
}
LENGTHS = (1, 2, 17, 128, 300, 592)
"""Tokens of the course's passage, for prompts of an exact length."""
NEW_TOKENS = 64
