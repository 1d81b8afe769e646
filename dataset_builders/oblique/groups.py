"""Queries that hang together, and the development split that is made of whole groups of them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from dataset_builders.sources.obliq_bench import ObliqueTask

DEVELOPMENT_SHARE = 0.2


def query_groups(task: ObliqueTask) -> dict[str, str]:
    """Each query's group: the unit of splits and of intervals.

    Two queries are of one group if they name the same attribute or share a relevant document of gold, and so are
    those that a chain of such pairs links (union-find, as O appendix I finds same-author groups). The pool is left
    out of it: what a retriever happened to find says nothing of what belongs together.

    Returns:
        Query id to the group's smallest query id, or to its attribute where all of the group name one.
    """
    parent = {query: query for query in task.queries}

    def root(query: str) -> str:
        while parent[query] != query:
            parent[query] = parent[parent[query]]
            query = parent[query]
        return query

    first: dict[tuple[str, str], str] = {}
    for query, text in sorted(task.queries.items()):
        links = [("document", d) for d, grade in task.qrels.get(query, {}).items() if grade > 0]
        links += [("attribute", text.attribute)] if text.attribute is not None else []
        for link in links:
            a, b = sorted((root(query), root(first.setdefault(link, query))))
            parent[b] = a
    members: dict[str, list[str]] = defaultdict(list)
    for query in task.queries:
        members[root(query)].append(query)
    groups: dict[str, str] = {}
    for representative, queries in members.items():
        attributes = {task.queries[q].attribute for q in queries}
        (attribute, *others) = attributes
        groups |= dict.fromkeys(queries, representative if others or attribute is None else attribute)
    return {query: groups[query] for query in task.queries}


def development_queries(task: ObliqueTask, seed: int = 0) -> frozenset[str]:
    """The queries on which choices are made: whole groups, in a seeded order, up to a fifth of all queries.

    OBLIQ-Bench ships no such split. A group that is larger than what is left of the fifth is passed
    over, so a benchmark of a single group has none.
    """
    groups = query_groups(task)
    sizes: dict[str, int] = defaultdict(int)
    for group in groups.values():
        sizes[group] += 1
    names = sorted(sizes)
    room = int(DEVELOPMENT_SHARE * len(groups))
    taken: set[str] = set()
    for i in np.random.default_rng(seed).permutation(len(names)):
        if sizes[names[i]] <= room:
            taken.add(names[i])
            room -= sizes[names[i]]
    return frozenset(query for query, group in groups.items() if group in taken)
