"""The way to an OpenAI-compatible endpoint: its form of a schema, and how much of an answer is read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import httpx2
from huggingface_hub import InferenceClient

MAX_BYTES: Final = 16 * 2**20
"""Of one answer, unpacked; a hundred thousand tokens are less than one MiB."""


class TooLongError(Exception):
    """An answer was not whole in time."""


class TooLargeError(Exception):
    """An answer is larger than `MAX_BYTES`."""


class EndpointClient(InferenceClient):
    """InferenceClient with its own way to an endpoint, which differs from the Hub's in three points.

    The Hub's session refuses everything while HF_HUB_OFFLINE is set, a server on this machine too. For a bare
    address the client turns a JSON schema into the form that TGI alone knows; others read it as "any JSON". And what
    an unknown server sends is read up to a size and a time.
    """

    def __init__(self, base_url: str, *, key: str, timeout: float, longest: float, proxies: bool) -> None:
        super().__init__(base_url=base_url, api_key=key, timeout=timeout)
        self._longest = longest
        self._http = httpx2.Client(
            timeout=timeout,
            trust_env=proxies,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
        )
        self._tgi = False

    def _inner_post(self, request_parameters: Any, *, stream: bool = False) -> Any:
        body = dict(request_parameters.json)
        form = body.get("response_format")
        if form is not None and not self._tgi:
            body["response_format"] = _openai_form(form)
        response = self._post(request_parameters, body)
        if response.status_code == 422 and form is not None and not self._tgi:
            # TGI cannot read OpenAI's form. If it was something else, this is refused as well.
            retried = self._post(request_parameters, body | {"response_format": form})
            self._tgi = retried.is_success
            response = retried if retried.is_success else response
        response.raise_for_status()
        return response.content

    def _post(self, request_parameters: Any, body: dict[str, Any]) -> httpx2.Response:
        end = time.monotonic() + self._longest
        content = bytearray()
        with self._http.stream(
            "POST", request_parameters.url, json=body, headers=request_parameters.headers
        ) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise TooLargeError(f"the answer is larger than {MAX_BYTES:,} bytes")
                if time.monotonic() > end:  # whoever asked has been told; the connection is not kept
                    raise TooLongError
        # As it was read: unpacked, so without the headers that speak of its packing.
        headers = {k: v for k, v in response.headers.items() if k not in ("content-encoding", "content-length")}
        return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=response.request)


def _openai_form(form: Mapping[str, Any]) -> Mapping[str, Any]:
    if form.get("type") != "json_object" or "value" not in form:
        return form
    return response_format(form["value"])


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's ``response_format`` for a JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}
