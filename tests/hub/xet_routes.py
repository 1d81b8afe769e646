"""Uploads as hf_xet makes them: chunks packed into xorbs, then a shard that says which chunks make up which file.

The installed huggingface_hub sends every large file this way when hf_xet is there and not switched off; it does not
fall back to LFS. So the storage takes xorbs and shards, puts the files together and keeps them like LFS objects.
Downloads never mention Xet, and the same client then reads over HTTP.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tests.hub.messages import Answer, HubError, Request, Route

# A shard: a header, then for each file a row of its hash and flags, its terms, and what the flags announce.
_ROW = 48
_HEADER = 48
_END = b"\xff" * 32
_WITH_VERIFICATION, _WITH_METADATA = 1 << 31, 1 << 30


def write_token(request: Request, type: str, repo: str, rev: str) -> Answer:
    request.writable(type, repo)
    expiry = int(time.time()) + 3600
    headers = {
        "X-Xet-Cas-Url": request.hub.storage,
        "X-Xet-Access-Token": request.hub.xet_token,
        "X-Xet-Token-Expiration": str(expiry),
    }
    body = {"casUrl": request.hub.storage, "accessToken": request.hub.xet_token, "exp": expiry}
    return Answer.json(body, headers=headers)


def _authorised(request: Request) -> None:
    if request.headers.get("Authorization") != f"Bearer {request.hub.xet_token}":
        raise HubError(401, "Unauthorized")


def not_here(request: Request, hash: str = "") -> Answer:
    """No chunk is known from elsewhere, and of two versions of a call only the older one is served."""
    _authorised(request)
    raise HubError(404, "Not found")


def put_xorb(request: Request, hash: str) -> Answer:
    _authorised(request)
    inserted = request.store.put_xorb(hash, request.body)
    return Answer.json({"was_inserted": inserted})


def put_shard(request: Request) -> Answer:
    """Put together every file of the shard."""
    _authorised(request)
    for sha256, terms in _files(request.body):
        content = b"".join(_chunks(request, hash, start, stop) for hash, start, stop in terms)
        if request.store.write(content) != sha256:
            raise HubError(400, f"The chunks do not make up the file {sha256}")
    return Answer.json({"result": 1})


def _hex(raw: bytes) -> str:
    """A hash as hf_xet writes it: four little-endian words."""
    return "".join(f"{word:016x}" for word in struct.unpack("<4Q", raw))


def _files(shard: bytes) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """The sha256 of each file and its terms: (xorb, first chunk, chunk after the last)."""
    place = _HEADER
    while shard[place : place + 32] != _END:
        flags, count = struct.unpack_from("<2I", shard, place + 32)
        place += _ROW
        terms = []
        for row in range(place, place + count * _ROW, _ROW):
            start, stop = struct.unpack_from("<2I", shard, row + 40)
            terms.append((_hex(shard[row : row + 32]), start, stop))
        place += count * _ROW * (2 if flags & _WITH_VERIFICATION else 1)
        if not flags & _WITH_METADATA:
            raise HubError(400, "The shard names a file without its sha256")
        yield _hex(shard[place : place + 32]), terms
        place += _ROW


def _chunks(request: Request, hash: str, start: int, stop: int) -> bytes:
    """The bytes of some chunks of a xorb. Each has a head of 8: version, packed size, packing, size."""
    xorb = request.store.xorb(hash)
    if xorb is None:
        raise HubError(400, f"The shard names an unknown xorb: {hash}")
    parts = []
    place = 0
    for number in range(stop):
        packed, packing = int.from_bytes(xorb[place + 1 : place + 4], "little"), xorb[place + 4]
        size = int.from_bytes(xorb[place + 5 : place + 8], "little")
        if number >= start:
            parts.append(_unpack(xorb[place + 8 : place + 8 + packed], packing, size))
        place += 8 + packed
    return b"".join(parts)


def _unpack(chunk: bytes, packing: int, size: int) -> bytes:
    """Packing 0 is none, 1 is LZ4, 2 is LZ4 over bytes that were sorted by their place modulo 4."""
    if packing == 0:
        return chunk
    content: bytes = pa.Codec("lz4").decompress(chunk, decompressed_size=size, asbytes=True)
    if packing == 1:
        return content
    mixed = np.empty(size, dtype=np.uint8)
    groups = np.frombuffer(content, dtype=np.uint8)
    place = 0
    for group in range(4):
        length = len(mixed[group::4])
        mixed[group::4] = groups[place : place + length]
        place += length
    return mixed.tobytes()


ROUTES = [
    Route("GET", "/api/{type}/{repo}/xet-write-token/{rev}", write_token),
    Route("GET", "/v1/chunks/default/{hash}", not_here, storage=True),
    Route("POST", "/v1/xorb-grants/default/{hash}", not_here, storage=True),
    Route("POST", "/v1/xorbs/default/{hash}", put_xorb, storage=True),
    Route("POST", "/v2/shards", not_here, storage=True),
    Route("POST", "/v1/shards", put_shard, storage=True),
]
