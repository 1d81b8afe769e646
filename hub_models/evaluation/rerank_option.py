"""What ``evaluate.py --rerank`` means: further runs of the tasks at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dataset_builders.generate import LanguageModel
from dataset_builders.schema import Split
from dataset_builders.text import did_you_mean
from hub_models.evaluation.llm_baselines import OracleTournament, Rewriting
from hub_models.evaluation.named_tasks import Tasks, load_tasks
from hub_models.evaluation.oblique import ObliqueJudgements
from hub_models.evaluation.policy_run import ChosenReranking
from hub_models.evaluation.reranking import Reranking, Setting
from hub_models.evaluation.stance import Judgements
from hub_models.evaluation.stance_reranking import StanceReranking
from hub_models.evaluation.variants import ObliqueVariant, Variant
from hub_models.retrieval.policies import AUTO, KINDS, Policy
from hub_models.retrieval.rerank import DEPTH

REPLIES: Final = "replies-{host}.sqlite3"
"""The language models' answers, in the cache folder: a file for each host, for a model is known to it by its name."""

_OTHERS = ("auto", "rewrite", "oracle-tournament")


def language_model(name: str | None, base_url: str | None, cache: Path | None) -> LanguageModel | None:
    """The model of ``--llm``, its answers kept in the cache folder; None without a name.

    Raises:
        ValueError: If there is an address and no name, or one of them is malformed.
        OSError: If the answers cannot be kept there.
    """
    if name is None and base_url is not None:
        raise ValueError(f"got --base-url {base_url} and no --llm: name the model that is asked there")
    if name is None:
        return None
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(base_url).netloc.rpartition("@")[2] if base_url else "hub")
    return LanguageModel(name, base_url=base_url, cache=(cache or Path(".cache")) / REPLIES.format(host=host))


@dataclass(frozen=True, eq=False)
class Rerankings:
    """The runs that an option asks for, by family."""

    stance: tuple[Variant, ...] = ()
    oblique: tuple[ObliqueVariant, ...] = ()


def rerankings(
    option: str,
    tasks: Tasks,
    names: Sequence[str],
    data: Path | None,
    split: Split,
    *,
    depth: int = DEPTH,
    model: LanguageModel | None = None,
    allow_dangling: bool = False,
) -> Rerankings:
    """Read the option, and everything that it needs, before anything long begins.

    Args:
        option: Names with commas: policies (`Policy.parse`), ``auto``, which chooses among the policies named with it
            or, alone, among O's three; ``rewrite``; ``oracle-tournament:Y``.
        tasks: What is evaluated.
        names: Its names, as they were given.
        data: The data that was given.
        split: The split.
        depth: Documents of a query that are reranked.
        model: The language model, for those that ask one.
        allow_dangling: As for `load_tasks`.

    Raises:
        ValueError: If a name is unknown, a language model is missing, stance tasks are to be reranked by anything but
            a cross-encoder, a language model is named that nothing asks, or ``auto`` has no development queries.
    """
    parts = [part.strip() for part in option.split(",") if part.strip()]
    policies, tournaments = _read(parts)
    stances = [name for name, judged in tasks.items() if isinstance(judged, Judgements)]
    if stances and any(not part.startswith("cross-encoder:") for part in parts):
        raise ValueError(f"got --rerank {option} on {', '.join(stances)}, wanted cross-encoder:ID for stance tasks")
    auto = "auto" in parts
    among = tuple(policies) or AUTO
    asks = [str(p) for p in (among if auto else policies) if p.asks] + [p for p in parts if p.startswith(_OTHERS[1:])]
    if asks and model is None:
        raise ValueError(f"--rerank {', '.join(asks)} asks a language model: give --llm MODEL, and --base-url URL")
    if model is not None and not asks:
        raise ValueError(f"got --llm {model.model} and --rerank {option}, none of which asks a language model")
    setting = Setting(model, depth)
    found: list[ObliqueVariant] = []
    if auto:
        found.append(ChosenReranking(among, setting, _development(tasks, names, data, split, allow_dangling)))
    found += [Reranking(policy, setting) for policy in policies if not auto]
    found += [Rewriting(setting)] if "rewrite" in parts else []
    found += [OracleTournament(y, setting) for y in tournaments]
    of_stance = tuple(StanceReranking(policy, depth) for policy in policies if stances)
    return Rerankings(of_stance, tuple(found) if len(stances) < len(tasks) else ())


def _read(parts: Sequence[str]) -> tuple[list[Policy], list[int]]:
    """The policies and the oracle tournaments."""
    policies: list[Policy] = []
    tournaments: list[int] = []
    for part in dict.fromkeys(parts):
        kind, _, value = part.partition(":")
        if kind == "oracle-tournament":
            tournaments.append(Policy.parse(f"tourrank:{value}").number or 0)
        elif part not in _OTHERS:
            if kind not in KINDS:
                known = [*KINDS, *_OTHERS]
                raise ValueError(f"got --rerank {part!r}, wanted some of {known}.{did_you_mean(kind, known)}")
            policies.append(Policy.parse(part))
    if not parts:
        raise ValueError(f"got an empty --rerank, wanted some of {[*KINDS, *_OTHERS]}")
    return policies, tournaments


def _development(
    tasks: Tasks, names: Sequence[str], data: Path | None, split: Split, allow_dangling: bool
) -> dict[str, ObliqueJudgements]:
    """The validation splits of tasks whose queries name their split."""
    if split == "validation":
        raise ValueError("got --rerank auto on the validation split, on which it would choose; evaluate on test")
    if not any(isinstance(j, ObliqueJudgements) and not any(q.development for q in j.queries) for j in tasks.values()):
        return {}
    loaded = load_tasks(names, data, "validation", allow_dangling=allow_dangling)
    return {f"{j.source} {j.task}": j for j in loaded.values() if isinstance(j, ObliqueJudgements)}
