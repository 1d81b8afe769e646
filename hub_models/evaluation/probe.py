"""The probe: an encoder's sense of stance from minimal pairs alone, without training and without a corpus.

A pair is an argument and its inversion: same claim, same facts, the other stance. Asked for one stance, the encoder
should find that side of the pair closer; and a side should be closer to the instruction that asks for it than to the
opposite instruction. Topic gives nothing away, since all four texts share it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dataset_builders.atomic import write_bytes
from dataset_builders.instructions import STANCES, UNSEEN, Instruction, Stance, format_query
from dataset_builders.rows import files_of, one_of, read_rows
from dataset_builders.schema import INVERSIONS, STYLES, Style
from dataset_builders.sources import load
from dataset_builders.text import check_text, did_you_mean, text_id
from hub_models import encoder, model_files, trained_claims
from hub_models.corpus import encode_corpus
from hub_models.evaluation.measured import Encode, Table
from hub_models.evaluation.metrics import Float64
from hub_models.evaluation.results import environment
from hub_models.evaluation.significance import paired_differences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBE_NAME = "probe.json"
MEASURES = {"argument": "right argument", "instruction": "right instruction", "both": "both ways"}
CHANCE = {"argument": 0.5, "instruction": 0.5, "both": 0.25}
"""What vectors drawn at random give. An encoder that is blind to the instruction gives 0 for ``both``: it prefers the
same side whatever it is asked."""

_REQUIRED = ("claim", "original", "original_stance", "inverted")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts on one claim that differ in little but their stance."""

    claim_id: str
    claim: str
    support: str
    attack: str
    style: Style | None

    def side(self, stance: Stance) -> str:
        """The text of that stance."""
        return self.support if stance == "support" else self.attack


@dataclass(frozen=True, slots=True)
class Share:
    """How often the right one was closer (ties count half), with an interval that resamples claims."""

    mean: float
    low: float | None
    high: float | None
    n: int
    claims: int


@dataclass(frozen=True, eq=False)
class Probe:
    """What was found.

    Attributes:
        model: Which weights answered.
        query_template: What formatted instruction and claim.
        data: Its ``source``, the ``sha256`` of its pairs, numbers of ``pairs`` and ``claims``, and how many of the
            claims the model was ``trained_on``.
        slices: ``overall``, ``support``, ``attack``, ``style=…`` and ``instruction=…`` to a `Share` of each of
            `MEASURES`.
        environment: Versions and device.
    """

    model: dict[str, Any]
    query_template: str
    data: dict[str, Any]
    slices: dict[str, dict[str, Share]]
    environment: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write strict JSON by rename."""
        content = json.dumps({"schema_version": 1} | asdict(self), indent=1, ensure_ascii=False, allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.encode() + b"\n")


def pairs_of(source: str, data: Path | None = None) -> list[Pair]:
    """The minimal pairs: the inversions of a source's *test* claims, or of every row of a file of one's own.

    Args:
        source: Any source whose test claims have inversions, such as ``sample``.
        data: Takes its place: JSONL or parquet in the shape of ``{source}-stance-inversions``, of which ``claim``,
            ``original``, ``original_stance`` and ``inverted`` are needed.

    Raises:
        FileNotFoundError: If there is nothing at ``data``.
        ValueError: If there is no inversion, or a row is faulty.
    """
    if data is not None:
        seen: dict[Pair, str] = {}
        for where, row in (pair for file in files_of(data) for pair in read_rows(file)):
            if (first := seen.setdefault(found := _pair(row, where), where)) != where:
                raise ValueError(f"{where}: got the pair of {first} once more on {found.claim!r}, wanted it once")
        if not seen:
            raise ValueError(f"{data}: there is no row; wanted one object an inversion with {list(_REQUIRED)}")
        return list(seen)
    tested = load(source).restrict({"test"})
    if not tested.inversions:
        raise ValueError(
            f"{source}: none of its {len(tested.claims)} test claims has an inverted argument; give --data FILE with "
            f"rows of {list(_REQUIRED)}"
        )
    return [
        _ordered(i.claim_id, i.claim, i.original, i.inverted, i.original_stance, i.style) for i in tested.inversions
    ]


def _pair(row: dict[str, Any], where: str) -> Pair:
    missing = [key for key in _REQUIRED if key not in row]
    if unknown := [key for key in row if key not in INVERSIONS]:
        hints = "".join(did_you_mean(key, INVERSIONS) for key in unknown)
        raise ValueError(f"{where}: got the unknown keys {unknown}, wanted some of {list(INVERSIONS)}.{hints}")
    if missing:
        raise ValueError(f"{where}: got no {missing}, wanted at least {list(_REQUIRED)}")
    claim, original, inverted = (check_text(row[k], f"{where}: {k}") for k in ("claim", "original", "inverted"))
    stance = one_of("original_stance", row["original_stance"], STANCES, where)
    style = one_of("style", row["style"], STYLES, where) if row.get("style") is not None else None
    if original == inverted:
        raise ValueError(f"{where}: got the same text as original and inverted, wanted two of different stances")
    claim_id = row.get("claim_id")
    if claim_id is not None and (not isinstance(claim_id, str | int) or isinstance(claim_id, bool)):
        raise ValueError(f"{where}: claim_id: got {type(claim_id).__name__}, wanted text or a whole number")
    claim_id = text_id("claim", claim) if claim_id in (None, "") else str(claim_id)
    return _ordered(claim_id, claim, original, inverted, stance, style)


def _ordered(claim_id: str, claim: str, original: str, inverted: str, stance: Stance, style: Style | None) -> Pair:
    support, attack = (original, inverted) if stance == "support" else (inverted, original)
    return Pair(claim_id, claim, support, attack, style)


def couples() -> list[tuple[Instruction, Instruction]]:
    """The unseen instructions, each that asks for support with its opposite: same verb frame, other stance word."""
    of = {stance: [i for i in UNSEEN if i.stance == stance] for stance in STANCES}
    return list(zip(of["support"], of["attack"], strict=True))


def measure(pairs: Sequence[Pair], encode: Encode, query_template: str) -> Table:
    """One row a (pair, instruction): ``claim_id``, ``style``, ``stance`` and ``instruction_id``, and of `MEASURES` 1
    where the right one is closer, 0.5 where both are as close, 0 else.

    ``argument`` holds the two sides of the pair against the instruction, ``instruction`` the instruction and its
    opposite against the side that it asks for; ``both`` is 1 where ``argument`` is right for the instruction and for
    its opposite.
    """
    queries = {
        (p.claim, i.id): format_query(query_template, i.text, p.claim) for p in pairs for c in couples() for i in c
    }
    sides = [p.side(s) for p in pairs for s in STANCES]
    texts = list(dict.fromkeys([*queries.values(), *sides]))
    place = {text: row for row, text in enumerate(texts)}
    vectors = encode(texts)
    rows: list[tuple[Any, ...]] = []
    for pair in pairs:
        documents = vectors[[place[pair.side(s)] for s in STANCES]]
        for couple in couples():
            asked = vectors[[place[queries[pair.claim, i.id]] for i in couple]]
            cosines = asked.astype(np.float64) @ documents.T  # [instruction, side], the right ones on the diagonal
            by_side = [_closer(cosines[k, k], cosines[k, 1 - k]) for k in range(2)]
            by_asked = [_closer(cosines[k, k], cosines[1 - k, k]) for k in range(2)]
            both = float(min(by_side) == 1)
            rows += [
                (pair.claim_id, pair.style, i.stance, i.id, by_side[k], by_asked[k], both)
                for k, i in enumerate(couple)
            ]
    names = ("claim_id", "style", "stance", "instruction_id", *MEASURES)
    return {
        name: np.array(column, np.float64 if name in MEASURES else object)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def _closer(right: float, wrong: float) -> float:
    return 0.5 if right == wrong else float(right > wrong)


def summarise(table: Table) -> dict[str, dict[str, Share]]:
    """Slice to measure to its share, with 95 % intervals over claims."""
    masks = {"overall": np.full(len(table["claim_id"]), True)}
    masks |= {stance: table["stance"] == stance for stance in STANCES}
    masks |= {f"style={style}": table["style"] == style for style in STYLES}
    masks |= {f"instruction={i.id}": table["instruction_id"] == i.id for c in couples() for i in c}
    return {name: _shares(table, mask) for name, mask in masks.items() if mask.any()}


def _shares(table: Table, rows: Any) -> dict[str, Share]:
    values: Float64 = np.stack([table[name][rows] for name in MEASURES], axis=1)
    found = paired_differences(values, table["claim_id"][rows].tolist())
    return {
        name: Share(d.delta, d.low, d.high, len(values), d.n_units) for name, d in zip(MEASURES, found, strict=True)
    }


def probe(model: str, pairs: Sequence[Pair], source: str, trust_remote_code: str | None = None) -> Probe:
    """Probe any encoder that `hub_models.load` takes.

    Args:
        model: Folder or Hub id.
        pairs: From `pairs_of`.
        source: The name of their data.
        trust_remote_code: See `encoder.load`.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If it cannot be loaded as it should, or gives no usable vectors.
    """
    loaded = encoder.load(model, trust_remote_code=trust_remote_code)
    template = model_files.query_template_of(model)
    table = measure(pairs, lambda texts: encode_corpus(texts, loaded), template)
    claims = {p.claim for p in pairs}
    content = json.dumps([asdict(p) for p in pairs], sort_keys=True).encode()
    return Probe(
        model=asdict(encoder.identity(loaded, model)),
        query_template=template,
        data={
            "source": source,
            "sha256": hashlib.sha256(content).hexdigest(),
            "pairs": len(pairs),
            "claims": len(claims),
            "trained_on": len(trained_claims.read(model) & trained_claims.ids(claims)),
        },
        slices=summarise(table),
        environment=environment(str(loaded.device)),
    )


def report(found: Probe) -> str:
    """The table that is printed."""
    data = found.data
    lines = [
        f"{found.model['id']} on {data['source']}: {data['pairs']} arguments of {data['claims']} claims, each with "
        "its inversion; unseen instructions",
        f"{'':<38}{''.join(f'{name:<24}' for name in MEASURES.values())}".rstrip(),
    ]
    for name, shares in found.slices.items():
        lines.append(f"{_label(name):<38}{''.join(f'{_cell(shares[m]):<24}' for m in MEASURES)}".rstrip())
    chance = "".join(f"{CHANCE[m]:<24.3f}" for m in MEASURES)
    lines += [
        f"{'chance':<38}{chance}".rstrip(),
        "right argument: of an argument and its inversion, the one of the stance asked for is closer.",
        "right instruction: an argument is closer to the instruction that asks for its stance than to its opposite.",
        "both ways: the right argument for an instruction and for its opposite; who is blind to instructions gets 0.",
        "[low, high]: 95 % intervals, whole claims resampled.",
    ]
    if data["trained_on"]:
        lines.append(f"{data['trained_on']} of the {data['claims']} claims were trained on.")
    return "\n".join(lines)


def picture(found: Probe) -> Figure:
    """Each slice's shares with their intervals, beside chance."""
    from matplotlib.figure import Figure

    names = list(found.slices)
    figure = Figure(figsize=(7.5, 0.34 * len(names) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(CHANCE["argument"], color="#999999", linewidth=0.8, linestyle="--")
    styles = {"argument": ("#3566a8", "o"), "instruction": ("#c77f1e", "s"), "both": ("#3a9b5c", "D")}
    for offset, (measure_name, (colour, marker)) in zip((-0.22, 0.0, 0.22), styles.items(), strict=True):
        for y, name in enumerate(names):
            share = found.slices[name][measure_name]
            label = MEASURES[measure_name] if y == 0 else None
            axes.plot(share.mean, y + offset, marker, color=colour, markersize=4, label=label)
            if share.low is not None and share.high is not None:
                axes.plot([share.low, share.high], [y + offset] * 2, color=colour, linewidth=1.2)
    axes.set_yticks(range(len(names)), [_label(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("how often the right one is closer (dashed: chance; both ways: chance is 0.25)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    data = found.data
    figure.suptitle(f"{found.model['id']} · {data['source']}, {data['claims']} claims", fontsize=9)
    return figure


def _label(slice_name: str) -> str:
    kind, _, value = slice_name.partition("=")
    if kind == "instruction":
        return next(i.text for i in UNSEEN if i.id == value)
    return {"support": "asked for support", "attack": "asked for attack"}.get(slice_name, value or slice_name)


def _cell(share: Share) -> str:
    interval = "" if share.low is None or share.high is None else f" [{share.low:.3f}, {share.high:.3f}]"
    return f"{share.mean:.3f}{interval}"
