"""Ask questions in a process of its own, which a test may kill: ADDRESS CACHE CONCURRENCY QUESTION..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dataset_builders.generate import LanguageModel, Reply, Request

address, cache, concurrency, *questions = sys.argv[1:]
model = LanguageModel("tiny", base_url=address, cache=Path(cache), concurrency=int(concurrency))
requests = [Request(({"role": "user", "content": question},)) for question in questions]
replies = {i: r.text for i, r in model.ask_all(requests, description="asking") if isinstance(r, Reply)}
json.dump({"replies": [replies.get(i) for i in range(len(questions))], **model.counters.as_dict()}, sys.stdout)
