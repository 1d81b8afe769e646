"""MTEB's own OBLIQ-Bench tasks, over data that is at hand: the numbers of its leaderboard, from a local folder.

They measure what our ``claim_only`` run does, since MTEB gives an encoder the query without our instruction: its
``ndcg_at_10`` is ``ndcg_at_10_pooled`` there, or ``ndcg_at_10_gold`` where there is no pool. Pooled numbers do not
compare with O's Gold columns.
"""

from __future__ import annotations

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.sources.obliq_bench import ObliqueTask
from hub_models.evaluation.oblique_metrics import Judged

MTEB_TASKS: dict[ObliqueTaskName, tuple[str, Judged]] = {
    "twitter": ("OBLIQBenchTwitterRetrieval", "pooled"),
    "wildchat": ("OBLIQBenchWildChatRetrieval", "pooled"),
    "math": ("OBLIQBenchMathRetrieval", "pooled"),
    "writing": ("OBLIQBenchWritingRetrieval", "gold"),
    "congress": ("OBLIQBenchCongressRetrieval", "gold"),
}
"""MTEB's task on the same texts, and which judgements it uses."""


def mteb_task(data: ObliqueTask) -> AbsTaskRetrieval:
    """MTEB's own task of this name with ``data`` laid in, in place of its copy on the Hub.

    As there, exclusions are candidate lists of everything else, so memory grows with queries times documents: for
    corpora of the size of OBLIQ-Bench's math and writing, the two that have exclusions. `ObliqueRetrieval` has no
    such limit.

    Args:
        data: All queries are asked; those without a relevant document leave the mean, as MTEB filters them.
    """
    name, judged = MTEB_TASKS[data.task]
    task = mteb.get_task(name)
    qrels = data.pooled if judged == "pooled" and data.pooled is not None else data.qrels
    top_ranked = None
    if data.excluded:
        top_ranked = {q: [d for d in data.corpus if d not in data.excluded.get(q, ())] for q in data.queries}
    split = RetrievalSplitData(
        corpus=Dataset.from_list([{"id": i, "title": "", "text": d.text} for i, d in data.corpus.items()]),
        queries=Dataset.from_list([{"id": i, "text": q.text} for i, q in data.queries.items()]),
        relevant_docs={
            q: {d: grade for d, grade in grades.items() if d not in data.excluded.get(q, ())}
            for q, grades in qrels.items()
        },
        top_ranked=top_ranked,
    )
    task.dataset = {data.task: {"test": split}}
    task.data_loaded = True
    return task
