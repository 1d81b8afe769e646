"""Rerank in a process of its own, which a test may kill: ADDRESS CACHE TOURNAMENTS N. Prints the order as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dataset_builders.generate import LanguageModel
from hub_models.retrieval.tourrank import TourRank

address, cache, tournaments, n = sys.argv[1:]
model = LanguageModel("tiny", base_url=address, cache=Path(cache))
found = TourRank(model.ask, int(tournaments))("which is largest", [f"text {i}" for i in range(int(n))])
json.dump({"order": found.order, "calls": found.cost.calls, "asked": model.counters.calls}, sys.stdout)
