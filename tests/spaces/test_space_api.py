"""The named endpoints through gradio's own client, and a server that is asked too much."""

from __future__ import annotations

import ast
import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from slant_space.corpora import UPLOAD_BYTES

from dataset_builders.sources import oblique
from hub_models import ObliqueSearch
from hub_models.evaluation.ablation import reliance, word_deltas

CLAIM = "Schools should require uniforms."


@pytest.fixture(scope="module")
def client(space):
    return Client(space.local_url, verbose=False)


def test_the_endpoints_have_names_and_types(client):
    found = client.view_api(return_format="dict")["named_endpoints"]
    assert set(found) == {"/stance_search", "/oblique_search", "/explain"}
    types = {p["parameter_name"]: p["python_type"]["type"] for p in found["/stance_search"]["parameters"]}
    assert types["claim"] == "str" and types["k"] == "int" and types["weight"] == "float" and types["auto"] == "bool"
    assert types["stance"] == "Literal['support', 'attack']"


def test_stance_search(client, engine):
    rows = client.predict(CLAIM, stance="support", k=5, weight=0.4, api_name="/stance_search")
    hits = engine.dial.released.search(CLAIM, "support", k=5, hybrid=0.4)
    assert [(r["id"], r["rank"]) for r in rows] == [(h.id, i) for i, h in enumerate(hits, 1)]
    assert [r["score"] for r in rows] == pytest.approx([h.score for h in hits], abs=1e-4)
    own = client.predict(
        CLAIM, k=3, weight=0, model="base", instruction="Find doubts about", api_name="/stance_search"
    )
    expected = engine.dial.base.search(CLAIM, k=3, hybrid=0, instruction="Find doubts about")
    assert [r["id"] for r in own] == [h.id for h in expected]


def test_oblique_search(client, engine):
    rows = client.predict("Tired of meetings", task="congress", k=4, api_name="/oblique_search")
    texts = {i: d.text for i, d in oblique.load("sample", "congress").restrict("test").corpus.items()}
    hits = ObliqueSearch(engine.settings.model, texts, task="congress").search("Tired of meetings", k=4)
    assert [(r["id"], r["system"]) for r in rows] == [(h.id, "tuned") for h in hits]
    words = client.predict("committee", task="congress", k=4, system="bm25", api_name="/oblique_search")
    assert words and all("committee" in r["text"].lower() for r in words)


def test_explain(client, engine):
    document, search = "Uniforms level differences.", engine.dial.released
    found = client.predict(CLAIM, document, stance="support", api_name="/explain")
    deltas = word_deltas(
        "Find evidence backing", CLAIM, "Uniforms level differences.", search.encode, "{instruction} {claim}"
    )
    assert [(w["part"], w["word"]) for w in found["words"]] == [d[:2] for d in deltas]
    assert [w["delta"] for w in found["words"]] == pytest.approx([d[2] for d in deltas], abs=1e-5)
    assert found["ris"] == pytest.approx(reliance(deltas).ris, abs=1e-3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"claim": ""}, "Type or pick a claim first"),
        ({"claim": "a\x00"}, "NUL"),
        ({"claim": CLAIM, "k": 2}, "got k = 2, wanted a whole number from 3 to 20"),
        ({"claim": CLAIM, "k": "5"}, "got k = '5', wanted a whole number"),
        ({"claim": CLAIM, "k": 5.5}, "got k = 5.5, wanted a whole number"),
        ({"claim": CLAIM, "k": True}, "got k = True, wanted a whole number"),
        ({"claim": CLAIM, "weight": 1.5}, "got the weight 1.5, wanted a number from 0 to 1"),
        ({"claim": CLAIM, "weight": "0.5"}, "got the weight '0.5', wanted a number from 0 to 1"),
        ({"claim": ["a"]}, "claim: got list, wanted a text"),
        ({"claim": CLAIM, "auto": "yes"}, "auto: got str, wanted true or false"),
        ({"claim": CLAIM, "instruction": 7}, "instruction: got int, wanted a text"),
        ({"claim": CLAIM, "stance": "for"}, "got 'for', wanted one of"),
        ({"claim": CLAIM, "model": None}, "got None, wanted one of"),
    ],
)
def test_bad_questions_are_answered_in_words(client, given, words):
    with pytest.raises(AppError, match=words):
        client.predict(**given, api_name="/stance_search")


def test_the_other_endpoints_refuse_in_words_too(client):
    with pytest.raises(AppError, match="query: got dict, wanted a text"):
        client.predict({"a": 1}, api_name="/oblique_search")
    with pytest.raises(AppError, match="got 'tw', wanted one of"):
        client.predict("x", task="tw", api_name="/oblique_search")
    with pytest.raises(AppError, match="document: got NoneType None, wanted a text"):
        client.predict(CLAIM, None, api_name="/explain")
    with pytest.raises(AppError, match="up to 80 can be explained"):
        client.predict("word " * 10_000, "A document.", api_name="/explain")


def test_odd_claims_get_answers(client):
    for claim in ("word " * 10_000, "\U0001f600\U0001f468‍\U0001f469", "יש לאסור מכוניות", "<script>alert(1)</script>"):
        assert len(client.predict(claim, k=3, api_name="/stance_search")) == 3


def test_thirty_at_once_are_all_answered_each_with_its_own(client, engine):
    claims = engine.dial.corpus.claims[:30]
    expected = [engine.dial.released.search(claim, k=3)[0].id for claim in claims]
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda claim: client.predict(claim, k=3, api_name="/stance_search")[0]["id"], claims))
    assert found == expected


def test_beyond_the_queue_a_caller_reads_that_it_is_full(client, space, monkeypatch):
    monkeypatch.setattr(space._queue, "max_size", 0)
    with pytest.raises(Exception, match="Queue is full! Please try again"):
        client.predict(CLAIM, api_name="/stance_search")


@pytest.mark.parametrize(("size", "status"), [(UPLOAD_BYTES, 200), (5 * 2**20 + 1, 413)])
def test_a_file_that_is_too_large_is_refused_by_the_server_itself(space, size, status):
    """What `read_documents` refuses in words may arrive; nothing much larger does, whoever sends it."""
    sent = {"files": ("own.txt", b"x" * size)}
    answer = httpx.post(f"{space.local_url}gradio_api/upload", files=sent, timeout=60)
    assert answer.status_code == status, answer.text


def test_the_endpoints_are_tools_of_the_mcp_server(space):
    tools = httpx.get(f"{space.local_url}gradio_api/mcp/schema", timeout=30).json()
    assert sorted(t["name"].split("_", 1)[-1] if t["name"].startswith("_") else t["name"] for t in tools) == [
        "explain", "oblique_search", "stance_search"
    ]  # fmt: skip
    (stance,) = [t for t in tools if t["name"].endswith("stance_search")]
    assert stance["description"].startswith("Find arguments that support or attack a claim")
    assert stance["inputSchema"]["properties"]["stance"]["enum"] == ["support", "attack"]


def test_a_tool_of_the_mcp_server_answers_as_the_endpoint_does(space, client):
    given = {"claim": CLAIM, "stance": "support", "k": 3}

    async def call():
        address = f"{space.local_url}gradio_api/mcp/"
        async with streamable_http_client(address) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            (name,) = [t.name for t in (await session.list_tools()).tools if t.name.endswith("stance_search")]
            return await session.call_tool(name, given), await session.call_tool(name, {**given, "k": 2})

    answered, refused = asyncio.run(call())
    assert not answered.isError
    assert ast.literal_eval(answered.content[0].text) == client.predict(**given, api_name="/stance_search")
    assert refused.isError and "got k = 2, wanted a whole number from 3 to 20" in refused.content[0].text
