from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import write_jsonl
from datasets import load_dataset

from dataset_builders import folder, sources
from dataset_builders.read import read_triplets
from dataset_builders.schema import Relation
from dataset_builders.stance import tables
from dataset_builders.stance.data import StanceData

CASES = Path(__file__).parent.parent / "cases"


def row(**changes: Any) -> dict[str, Any]:
    return {"claim": "Guns should be banned.", "support": ["It saves lives."], "attack": ["Nobody obeys."], **changes}


def load(tmp_path: Path, *rows: dict[str, Any], file: str = "mine.jsonl") -> StanceData:
    return sources.load("mine", write_jsonl(tmp_path / file, list(rows)))


def test_a_row_gives_a_claim_its_arguments_and_ids_from_the_texts(tmp_path: Path) -> None:
    data = load(tmp_path, row(style="natural", licence="cc0-1.0", domain="law"))
    (claim,) = data.claims
    assert (claim.claim, claim.domain, claim.split, claim.source, claim.licence) == (
        "Guns should be banned.", "law", None, "mine", "cc0-1.0",
    )  # fmt: skip
    assert claim.claim_id == claim.group_id and claim.claim_id.startswith("claim-")
    assert [(a.text, a.style) for a in data.arguments] == [
        ("It saves lives.", "natural"),
        ("Nobody obeys.", "natural"),
    ]
    assert [r.stance for r in data.relations] == ["support", "attack"]
    again = load(tmp_path, row(claim="guns should be  banned."))
    assert [c.claim_id for c in again.claims] == [claim.claim_id]


def test_given_ids_and_groups_are_kept_and_the_licence_is_unknown_if_none_is_named(tmp_path: Path) -> None:
    data = load(tmp_path, row(claim_id="c1", group_id="g", split="test", veracity="contested"))
    (claim,) = data.claims
    assert (claim.claim_id, claim.group_id, claim.split, claim.veracity) == ("c1", "g", "test", "contested")
    assert claim.licence == "unknown"


@pytest.mark.parametrize("name", ["test.jsonl", "test-00000-of-00002.jsonl"])
def test_the_name_of_a_file_gives_the_split(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, row(), file=name).claims[0].split == "test"
    assert load(tmp_path, row(split="train"), file=name).claims[0].split == "train"
    assert load(tmp_path, row(), file="testing.jsonl").claims[0].split is None


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", [row()])
    pq.write_table(pa.Table.from_pylist([row(claim="Cars too.")]), tmp_path / "validation.parquet")
    (tmp_path / "notes.txt").write_text("no data")
    data = sources.load("mine", tmp_path)
    assert [(c.claim, c.split) for c in data.claims] == [
        ("Guns should be banned.", "train"),
        ("Cars too.", "validation"),
    ]


def test_rows_of_one_claim_are_one_claim_with_both_styles(tmp_path: Path) -> None:
    data = load(
        tmp_path,
        row(style="natural", claim_id="first"),
        row(claim="guns should be banned", style="explicit", domain="law", support=["The claim is true."], attack=[]),
    )
    (claim,) = data.claims
    assert (claim.claim_id, claim.claim, claim.domain) == ("first", "Guns should be banned.", "law")
    assert [a.style for a in data.arguments] == ["natural", "natural", "explicit"]
    assert {r.claim_id for r in data.relations} == {"first"}


def test_an_argument_of_two_claims_is_one_argument_with_two_relations(tmp_path: Path) -> None:
    data = load(tmp_path, row(), row(claim="Cars should go.", support=["it  saves LIVES."], attack=[]))
    assert [a.text for a in data.arguments] == ["It saves lives.", "Nobody obeys."]
    shared = data.arguments[0].argument_id
    assert [r for r in data.relations if r.argument_id == shared] == [
        Relation(shared, data.claims[0].claim_id, "support"),
        Relation(shared, data.claims[1].claim_id, "support"),
    ]
    assert data.claims[0].group_id == data.claims[1].group_id


def test_a_claim_without_arguments_on_a_side_is_kept_and_counted(tmp_path: Path) -> None:
    data = load(tmp_path, row(attack=None), row(claim="Cars should go.", support=[], attack=[]))
    assert data.one_sided() == {
        "support": [data.claims[1].claim_id],
        "attack": [data.claims[0].claim_id, data.claims[1].claim_id],
    }


def test_case_4_empty_lists_first_and_parquet_alike(tmp_path: Path) -> None:
    for file in (CASES / "case04_nulls_first").glob("stance-*.jsonl"):
        rows = [json.loads(line) for line in file.read_bytes().splitlines()]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{file.stem}.parquet")
        write_jsonl(tmp_path / file.name, rows)
    data = sources.load("mine", tmp_path)
    assert len(data.claims) == 1  # one claim in four rows, with the ids c0 and c1
    assert sorted(a.text for a in data.arguments) == ["It saves lives.", "It will not stop criminals."]
    assert {r.stance for r in data.relations} == {"support", "attack"}


def test_case_5_only_lf_ends_a_line(tmp_path: Path) -> None:
    texts = [
        json.loads(line)["text"] for line in (CASES / "case05_separators.jsonl").read_bytes().split(b"\n") if line
    ]
    assert len(texts) == 5 and "\u2028" in texts[0] and "\u2029" in texts[0]
    data = load(tmp_path, row(support=texts, attack=[f"Not {t}" for t in texts]))
    assert [a.text for a in data.arguments] == texts + [f"Not {t}" for t in texts]
    (tmp_path / "crlf.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(row()).encode() + b"\r\n\r\n")
    assert len(sources.load("mine", tmp_path / "crlf.jsonl").claims) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(atack=["x"])], r"mine.jsonl:1: unknown keys \['atack'\].*Did you mean 'attack'\?"),
        ([{"claim": "a", "support": []}], r"mine.jsonl:1: .*missing keys \['attack'\]"),
        ([row(), row(claim="")], "mine.jsonl:2: claim: the text is empty"),
        ([row(support=["fine", " \t"])], "mine.jsonl:1: support, text 2: the text is empty"),
        ([row(support="It saves lives.")], "mine.jsonl:1: support: got str 'It saves lives.', wanted a list of texts"),
        ([row(claim=["a"])], r"mine.jsonl:1: claim: got list \['a'\], wanted a text"),
        ([row(claim_id=7)], "mine.jsonl:1: claim_id: got int 7, wanted a text"),
        ([row(style="explict")], "got style 'explict', wanted one of .*Did you mean 'explicit'"),
        ([row(split="tets")], "got split 'tets', wanted one of .*Did you mean 'test'"),
        ([row(attack=["a\x00b"])], "attack, text 1: the text holds a NUL character"),
        ([row(style="natural"), row(style="explicit")], "style is 'natural' in one row and 'explicit' in another"),
        ([row(veracity="true"), row(veracity="false")], "veracity is 'true' in one row and 'false' in another"),
        ([row(claim_id="c"), row(claim_id="c", claim="Other.")], "claim_id 'c' stands for two claims"),
        ([row(split="train"), row(split="test")], "stands for two claims or for two splits, .* in split test"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, *rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no row"),
        (b"[1]\n", "bad.jsonl:1: got a JSON list, wanted an object"),
        (b'{"claim": "a"\n', "bad.jsonl:1: the line is no JSON"),
        (b"{}\n\xff\n", r"bad.jsonl:2: the line is no UTF-8 \(invalid start byte at byte 0\)"),
        (b'{"claim": "\\ud800", "support": [], "attack": []}\n', "claim: the text holds a lone surrogate"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.jsonl").write_bytes(content.replace(b"{}\n", json.dumps(row()).encode() + b"\n"))
    with pytest.raises(ValueError, match=message):
        sources.load("mine", tmp_path / "bad.jsonl")


def test_wrong_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder; give a JSONL or parquet file"):
        sources.load("mine", tmp_path / "absent.jsonl")
    with pytest.raises(ValueError, match=r"the folder holds no .jsonl or .parquet file"):
        sources.load("mine", tmp_path)
    (tmp_path / "rows.csv").write_text("claim,support\n")
    with pytest.raises(ValueError, match=r"got a file of type '.csv', wanted one of"):
        sources.load("mine", tmp_path / "rows.csv")


def test_an_unknown_source_without_data_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"got the source 'sampel', wanted one of .*or your own data.*Did you mean 'sample'"
    ):
        sources.load("sampel")
    with pytest.raises(ValueError, match="perspectrum: the data does not come with the package"):
        sources.load("perspectrum")


def build(out: Path, name: str, data: StanceData, built: tables.Tables) -> Path:
    licences = tables.licences_of(data)
    folder.write(
        out / name,
        built.tables,
        default=built.default,
        licences=licences,
        summary=tables.summary(name, built, licences),
        facts={"name": name},
    )
    return out / name


def test_the_published_form_reads_back_as_it_was(tmp_path: Path) -> None:
    sample = sources.load("sample")
    path = build(tmp_path, "sample-stance-arguments", sample, tables.argument_tables(sample))
    without = sources.load("sample", path)
    assert not without.inversions
    build(tmp_path, "sample-stance-inversions", sample, tables.inversion_tables(sample))
    back = sources.load("sample", path)

    def rows(data: StanceData) -> list[set[Any]]:
        return [set(data.claims), set(data.arguments), set(data.relations), set(data.inversions)]

    assert rows(back) == rows(sample)
    assert rows(without)[:3] == rows(sample)[:3]


def test_case_5_built_folders_give_separators_back(tmp_path: Path) -> None:
    texts = [
        json.loads(line)["text"] for line in (CASES / "case05_separators.jsonl").read_bytes().split(b"\n") if line
    ]
    sides = {"support": texts, "attack": [f"Not {text}" for text in texts]}
    claims = [row(claim=f"Guns\u2028should {n}", split="train", **sides) for n in ("go.", "stay.")]
    data = load(tmp_path, *claims, row(claim="Tea is good.", split="train"))
    arguments = build(tmp_path, "mine-stance-arguments", data, tables.argument_tables(data))
    back = sources.load("mine", arguments)
    assert {a.text for a in back.arguments} == {a.text for a in data.arguments} >= {*texts, *sides["attack"]}
    assert {c.claim for c in back.claims} == {c.claim for c in data.claims}
    triplets = build(tmp_path, "mine-stance-triplets", data, tables.triplet_tables(data, triplets=None, seed=0))
    for rows in (read_triplets(triplets, "homogeneous"), load_dataset(str(triplets), "homogeneous", split="train")):
        assert set(rows["positive"][:]) >= {*texts, *sides["attack"]}
        assert {n["text"] for negatives in rows["negatives"][:] for n in negatives} >= {*texts, *sides["attack"]}
        assert set(rows["claim"][:]) == {c.claim for c in data.claims}


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ("claims", {"claim": None}, "claim: got NoneType None, wanted a text"),
        ("claims", {"group_id": None}, "group_id: got NoneType None"),
        ("claims", {"licence": ""}, "licence: the text is empty"),
        ("arguments", {"text": None}, "text: got NoneType None"),
        ("arguments", {"source": None}, "source: got NoneType None"),
        ("arguments", {"style": "natrual"}, "got style 'natrual', wanted one of .*Did you mean 'natural'"),
        ("relations", {"stance": "xx"}, "got stance 'xx', wanted one of"),
        ("relations", {"stance": None}, "got stance None, wanted one of"),
    ],
)
def test_bad_rows_of_the_published_form_are_refused(
    tmp_path: Path, config: str, change: dict[str, Any], message: str
) -> None:
    data = load(tmp_path, row(split="test"))
    path = build(tmp_path, "mine-stance-arguments", data, tables.argument_tables(data))
    (shard,) = path.glob(f"{config}/*.parquet")
    table = pq.read_table(shard)
    last = {**table.to_pylist()[-1], **change}
    rows = [*table.to_pylist()[:-1], last]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), shard)
    with pytest.raises(ValueError, match=rf"mine-stance-arguments: {config}, test, row {len(rows)}(: |: .*){message}"):
        sources.load("mine", path)


def test_an_argument_that_two_splits_share_reads_back_as_one(tmp_path: Path) -> None:
    data = load(tmp_path, row(split="train"), row(claim="Cars should go.", split="test"))
    back = sources.load("mine", build(tmp_path, "mine-stance-arguments", data, tables.argument_tables(data)))
    assert (len(back.claims), len(back.arguments), len(back.relations)) == (2, 2, 4)


def test_the_mteb_view_agrees_with_the_relations() -> None:
    sample = sources.load("sample")
    found = {
        (t.config, t.split): [r for b in t.batches for r in b.to_pylist()]
        for t in tables.argument_tables(sample).tables
    }
    assert {split for config, split in found if config in ("corpus", "queries", "qrels")} == {"validation", "test"}
    corpus = {split: {r["_id"] for r in found["corpus", split]} for split in ("validation", "test")}
    assert len(corpus["test"]) == 60 * 8 and corpus["validation"] < corpus["test"]
    stances = {(r.claim_id, r.argument_id): r.stance for r in sample.relations}
    for split, n_claims in (("validation", 20), ("test", 40)):
        queries = {q["_id"]: q for q in found["queries", split]}
        assert len(queries) == n_claims * 10
        assert next(iter(queries.values()))["text"].startswith("Discover sources promoting ")
        assert Counter(r["query-id"] for r in found["qrels", split]) == dict.fromkeys(queries, 4)
        for qrel in found["qrels", split]:
            query = queries[qrel["query-id"]]
            assert stances[query["claim_id"], qrel["corpus-id"]] == query["stance"]
            assert qrel["corpus-id"] in corpus[split] and qrel["score"] == 1


def test_an_inversion_of_an_absent_argument_is_refused() -> None:
    sample = sources.load("sample")
    ghost = [replace(sample.inversions[0], argument_id="ghost")]
    with pytest.raises(ValueError, match=r"1 inversions name a claim or argument that is not there.*'ghost'"):
        sources.merge.merge("s", sample.claims, sample.arguments, sample.relations, ghost)


def test_a_triplets_folder_is_no_source(tmp_path: Path) -> None:
    sample = sources.load("sample")
    path = build(tmp_path, "t", sample, tables.triplet_tables(sample, triplets=60, seed=0))
    with pytest.raises(ValueError, match=r"got configs \['homogeneous', 'mixed', 'mixed_aug'\], wanted 'claims'"):
        sources.load("mine", path)


def test_perspectrum(external: Path) -> None:
    data = sources.load("perspectrum", external / "perspectrum")
    assert Counter(c.split for c in data.claims) == {"train": 540, "validation": 139}  # one train claim is there twice
    validation = data.restrict({"validation"})
    assert {s: len(ids) for s, ids in validation.one_sided().items()} == {"support": 9, "attack": 20}
    assert Counter(r.stance for r in validation.relations) == {"support": 474, "attack": 440}  # 914 clusters
    assert len(validation.arguments) == 812  # some perspectives serve several claims
    assert {a.style for a in data.arguments} == {"natural"} and {c.licence for c in data.claims} == {"cc-by-sa-4.0"}
    equal = [c for c in data.claims if c.claim == "University education should be free"]
    assert [c.split for c in equal] == ["train", "validation"] and len({c.group_id for c in equal}) == 1


def test_perspectrum_has_the_published_counts(external: Path) -> None:
    """541 and 139 claims, perspective ids by stance, and claims with both stances, as in version 1.0."""
    folder = external / "perspectrum"
    split = json.loads((folder / "dataset_split_v1.0.json").read_text())
    rows = json.loads((folder / "perspectrum_with_answers_v1.0.json").read_text())
    assert Counter(split[str(row["cId"])] for row in rows) == {"train": 541, "dev": 139}
    ids: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for cluster in row["perspectives"]:
            ids[split[str(row["cId"])], cluster["stance_label_3"]] += len(cluster["pids"])
    assert [ids["train", "SUPPORT"], ids["train", "UNDERMINE"]] == [3599, 3379]
    assert [ids["dev", "SUPPORT"], ids["dev", "UNDERMINE"]] == [1047, 1024]
    data = sources.load("perspectrum", folder)
    for name, both in (("train", 406), ("validation", 110)):
        sides = data.restrict({name}).one_sided()
        assert Counter(c.split for c in data.claims)[name] - len({*sides["support"], *sides["attack"]}) == both
    assert data.counts == {"claims that repeat another, merged": 1, "arguments that repeat another, merged": 2}


def write_perspectrum(
    out: Path, claims: list[dict[str, Any]], pool: list[dict[str, Any]], split: dict[str, str]
) -> None:
    for name, content in (
        ("perspectrum_with_answers_v1.0.json", claims),
        ("perspective_pool_v1.0.json", pool),
        ("dataset_split_v1.0.json", split),
    ):
        (out / name).write_text(json.dumps(content))


def test_perspectrum_in_the_public_shape(tmp_path: Path) -> None:
    def claim(number: int, text: str, *clusters: tuple[str, list[int]]) -> dict[str, Any]:
        perspectives = [
            {"pids": pids, "stance_label_3": label, "stance_label_5": f"MILDLY_{label}",
             "voter_counts": [3, 0, 0, 0, 0], "evidence": []}
            for label, pids in clusters
        ]  # fmt: skip
        return {"cId": number, "text": text, "source": "idebate", "perspectives": perspectives, "topics": ["Law"]}

    texts = {
        7: "Wardens cost little.",
        3: "A warden is cheap.",
        5: "Rules on dogs are not obeyed.",
        9: "Parks belong to all.",
        4: "Children need space.",
    }
    write_perspectrum(
        tmp_path,
        [
            claim(20, "Dogs must be on a lead", ("SUPPORT", [7, 3]), ("UNDERMINE", [5])),
            claim(8, "Parks should close at night", ("UNDERMINE", [9]), ("SUPPORT", [7, 4])),
            claim(9, "Swings are needed", ("SUPPORT", [4])),
        ],
        [{"pId": i, "text": text, "source": "idebate"} for i, text in texts.items()],
        {"8": "dev", "9": "test", "20": "train"},
    )
    data = sources.load("perspectrum", tmp_path)
    assert [(c.claim_id, c.claim, c.split) for c in data.claims] == [
        ("perspectrum-20", "Dogs must be on a lead", "train"),
        ("perspectrum-8", "Parks should close at night", "validation"),
        ("perspectrum-9", "Swings are needed", "test"),
    ]
    # 3 and 4 are paraphrases of 7 there; 4 is an argument where it stands first.
    assert {(a.argument_id, a.text) for a in data.arguments} == {
        (f"perspective-{i}", texts[i]) for i in (4, 5, 7, 9)
    }  # fmt: skip
    assert set(data.relations) == {
        Relation("perspective-7", "perspectrum-20", "support"),
        Relation("perspective-5", "perspectrum-20", "attack"),
        Relation("perspective-9", "perspectrum-8", "attack"),
        Relation("perspective-7", "perspectrum-8", "support"),
        Relation("perspective-4", "perspectrum-9", "support"),
    }
    first, shares, alone = (c.group_id for c in data.claims)
    assert first == shares != alone
    assert {a.style for a in data.arguments} == {"natural"}
    assert {c.licence for c in data.claims} | {a.licence for a in data.arguments} == {"cc-by-sa-4.0"}


def test_perspectrum_says_which_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "perspectrum_with_answers_v1.0.json").write_text("[]")
    with pytest.raises(FileNotFoundError, match=r"perspective_pool_v1.0.json.*not found; wanted the files of"):
        sources.load("perspectrum", tmp_path)


def test_perspectrum_refuses_an_unknown_label(tmp_path: Path) -> None:
    claim = {"cId": 1, "text": "a", "perspectives": [{"pids": [1], "stance_label_3": "SUPORT"}]}
    write_perspectrum(tmp_path, [claim], [{"pId": 1, "text": "b"}], {"1": "train"})
    with pytest.raises(ValueError, match=r"got stance_label_3 'SUPORT', wanted one of .*Did you mean 'SUPPORT'"):
        sources.load("perspectrum", tmp_path)
