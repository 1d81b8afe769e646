"""The client's addresses and keys: who gets which, and who never sees one; and what it refuses to be asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataset_builders import chat
from dataset_builders.generate import GenerationError, LanguageModel, Reply, Request
from tests.asking import SCHEMA, ask, echo, model_at, no_waiting, one_after_another  # noqa: F401  (no_waiting is a fixture)
from tests.endpoint import Fault, endpoint


def test_no_token_in_log_error_or_cache(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    hub, key = "hf_" + "T" * 34, "key-" + "K" * 30
    monkeypatch.setenv("HF_TOKEN", hub)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    caplog.set_level(logging.DEBUG)
    refusals = [Fault(status=s, text=f"bad key {key} or {hub}", headers={"X-Key": key}) for s in (500, 429, 401)]
    with endpoint(one_after_another("fine", *refusals)) as server:
        model = model_at(server, cache=tmp_path / "c")
        model.ask(ask("q"))
        with pytest.raises(GenerationError, match=r"bad key \*\*\* or \*\*\*") as error:
            model.ask(ask("other"))
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert error.value.__suppress_context__ and error.value.__cause__ is None
    seen = caplog.text + "".join(capfd.readouterr()) + str(error.value) + repr(error.value)
    stored = b"".join(f.read_bytes() for f in tmp_path.iterdir())
    for secret in (hub, key):
        assert secret not in seen.replace(f"(b'X-Key', b'{secret}')", "") and secret.encode() not in stored


def test_a_hub_token_goes_to_the_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "T" * 34)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with endpoint(echo) as server:
        model_at(server).ask(ask("q"))
    assert "T" * 34 not in str(server.headers)
    sent = chat.Chat("m", base_url="https://x.endpoints.huggingface.cloud", provider=None, timeout=1)
    assert sent._client.token == "hf_" + "T" * 34
    other = chat.Chat("m", base_url="https://huggingface.co.example.org", provider=None, timeout=1)
    assert other._client.token == "none"


@pytest.mark.parametrize("where", [{"base_url": "https://api.example.org/v1"}, {"provider": "novita"}, {}])
def test_offline_nobody_outside_is_asked(where: dict[str, str], tmp_path: Path) -> None:
    with endpoint(echo) as server:
        model_at(server, cache=tmp_path / "c").ask(ask("q"))
    model = LanguageModel("tiny", cache=tmp_path / "c", **where)  # type: ignore[arg-type]
    assert model.ask(ask("q")).text == "re: q"
    with pytest.raises(GenerationError, match="not asked, for HF_HUB_OFFLINE is set; unset it"):
        model.ask(ask("other"))


def test_offline_this_machine_is_asked() -> None:
    assert chat.constants.HF_HUB_OFFLINE
    with endpoint(echo) as server:
        assert model_at(server).ask(ask("q")).text == "re: q"


def test_an_endpoint_that_reads_only_the_form_of_tgi() -> None:
    def answer(body: dict[str, Any]) -> str | Fault:
        form = body.get("response_format")
        return Fault(status=422, text="missing field `value`") if form and "value" not in form else echo(body)

    with endpoint(answer) as server:
        model = model_at(server)
        assert [model.ask(ask(t, schema=SCHEMA)).text for t in ("1", "2")] == ["re: 1", "re: 2"]
    forms = [body["response_format"] for body in server.bodies]
    assert [form["type"] for form in forms] == ["json_schema", "json_object", "json_object"]
    assert forms[1]["value"] == SCHEMA


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"model": " "}, "got the model ' ', wanted its name"),
        ({"model": "http://localhost:8000"}, "an address goes into base_url"),
        ({"base_url": "localhost:8000"}, "got the address 'localhost:8000', wanted one such as http://localhost"),
        ({"base_url": "http://localhost/v1", "provider": "novita"}, "give one of them"),
        ({"model": "\ud800"}, r"got the model '\\ud800', wanted its name"),
        ({"model": "a\nb"}, r"got the model 'a\\nb', wanted its name"),
        ({"temperature": -0.1}, "temperature: got -0.1, wanted 0 or more"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"max_tokens": 0}, "max_tokens: got 0"),
        ({"concurrency": 0}, "concurrency: got 0, wanted at least 1"),
        ({"attempts": 0}, "attempts: got 0"),
        ({"timeout": 0}, "timeout: got 0, wanted more than 0"),
        ({"requests_per_minute": -1}, "requests_per_minute: got -1"),
        ({"price": (1.0, -1.0)}, r"price: got \(1.0, -1.0\)"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LanguageModel(**{"model": "m", "base_url": None} | arguments)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://h:99999/v1",
        "http://h:abc/v1",
        "http://h/\x00",
        "http://\udcff/v1",
        "http://h h/v1",
        "http://h/v1\n",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"got the address 'http://.*' that cannot be read, wanted one such as"):
        LanguageModel("m", base_url=url)


@pytest.mark.parametrize("url", ["http://me:secret@localhost/v1", "http://localhost/v1?key=secret"])
@pytest.mark.parametrize("spoil", [lambda url: url, lambda url: f"{url}\x00", lambda url: url.replace("://", "://[")])
def test_an_address_that_holds_a_key_is_refused_without_showing_it(url: str, spoil: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match=r"put the key into OPENAI_API_KEY|an address that cannot be read") as error:
        LanguageModel("m", base_url=spoil(url))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ((), "at least one message"),
        (({"role": "user"},), r"message 0: got the keys \['role'\], wanted role and content"),
        (({"role": "user", "content": "a\ud800"},), "message 0: the text holds a lone surrogate"),
        (({"role": "user", "content": " "},), "message 0: the text is empty"),
    ],
)
def test_requests_that_are_none(messages: tuple[dict[str, str], ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Request(messages)


def test_replies_are_what_the_interface_says() -> None:
    with endpoint(lambda body: Fault(raw=json.dumps({"choices": [{"message": {"content": "a"}}]}))) as server:
        reply = model_at(server).ask(ask("q"))
    assert reply == Reply("a", 0, 0, "stop", False, reply.seconds)
