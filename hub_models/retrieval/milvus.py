"""The vectors of a corpus in Milvus: embedded in a file, or on a cluster that several machines search."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hub_models.retrieval.dense import Float32, Places, check_dimension, check_one_a_text, distinct
from hub_models.retrieval.ranking import CANDIDATES

if TYPE_CHECKING:
    from pymilvus import MilvusClient

logger = logging.getLogger(__name__)

TOKEN = "MILVUS_TOKEN"
"""The environment variable that holds ``user:password`` or an API key, where a cluster asks for one."""

_WHOLE = 2 * CANDIDATES  # documents that are fetched whole: each hit is a message of its own to pack and unpack
_INSERTED = 1 << 22  # numbers of one insertion: 16 MB
_PATIENCE = 60.0  # seconds for one call


class MilvusIndex:
    """Exact search (``FLAT``, inner product) of unit vectors that lie in a Milvus collection.

    The collection is called ``slant_`` and a hash over model and texts, so that several models, levers and corpora lie
    beside each other and none is mistaken for another; drop what is no longer wanted with Milvus' own tools. One that
    is complete is taken as it stands, without encoding anything; one that a killed process left is filled up.

    Args:
        address: ``PATH.db`` for Milvus Lite inside this process, or ``http(s)://HOST:PORT`` of a server or cluster.
        texts: One text a document.
        model: Hash of the model that encodes them.
        vectors: Gives float32[n_docs, d], L2-normalised, equal for equal texts; asked only where vectors are missing.

    Attributes:
        collection: Its name.
        depth: How many documents a query finds (1,000), None where that is all: of up to 2,000.

    Raises:
        ValueError: If the address is none, or the collection of that name holds something else.
        ModuleNotFoundError: If the extra ``milvus`` is not installed.
        ConnectionError: If there is no server, or it refuses.
    """

    def __init__(self, address: str, texts: Sequence[str], model: str, vectors: Callable[[], Float32]) -> None:
        check_address(address)
        first, self._column = distinct(texts)
        digest = hashlib.sha256(model.encode())
        for row in first:
            digest.update(hashlib.sha256(texts[row].encode()).digest())
        self.collection = f"slant_{digest.hexdigest()[:32]}"
        self._address, self._rows = address, len(first)
        self.depth = None if self._rows <= _WHOLE else CANDIDATES
        with self._asking():
            self._client = _connect(address)
            exists = self._client.has_collection(self.collection, timeout=_PATIENCE)
            there = self._counted() if exists else 0
        if there < self._rows:
            found = vectors()
            check_one_a_text(texts, found)
            with self._asking():
                self._fill(found, first, there, create=not exists)
        with self._asking():
            self._client.load_collection(self.collection, timeout=_PATIENCE)
            fields = self._client.describe_collection(self.collection, timeout=_PATIENCE)["fields"]
            there = self._counted()
        dimensions = {f["name"]: f["params"].get("dim") for f in fields}
        if there != self._rows or set(dimensions) != {"row", "vector"}:
            raise ValueError(
                f"{address}: the collection {self.collection} holds {there} rows of {sorted(dimensions)}, wanted "
                f"{self._rows} of row and vector; something else wrote into it: drop it and search again"
            )
        self._width = int(dimensions["vector"])

    def scores(self, queries: Float32, also: Sequence[int] = ()) -> Float32:
        """As in `dense.VectorIndex`.

        Raises:
            ConnectionError: If the server is gone.
        """
        check_dimension(queries, self._width)
        scores = np.full((len(queries), self._rows), -np.inf, np.float32)
        wanted = set(also if self._column is None else self._column[list(also)].tolist())
        for query, row in zip(queries, scores, strict=True):
            self._search(query, row, self._rows if self.depth is None else self.depth)
            missing = sorted(place for place in wanted if row[place] == -np.inf)
            if missing:
                self._search(query, row, len(missing), f"row in {list(map(int, missing))}")
        return scores if self._column is None else scores[:, self._column]

    def _search(self, query: Float32, row: Float32, k: int, among: str = "") -> None:
        with self._asking():
            (hits,) = self._client.search(
                self.collection,
                data=[query],
                anns_field="vector",
                limit=k,
                filter=among,
                output_fields=["row"],
                search_params={"metric_type": "IP"},
                timeout=_PATIENCE,
            )
        row[[hit["row"] for hit in hits]] = [hit["distance"] for hit in hits]

    def _counted(self) -> int:
        (counted,) = self._client.query(self.collection, output_fields=["count(*)"], timeout=_PATIENCE)
        return int(counted["count(*)"])

    def _fill(self, vectors: Float32, first: Places, there: int, *, create: bool) -> None:
        """Rows are written in order and by their number, so that as many as there are are the first ones."""
        from pymilvus import DataType

        client, width = self._client, vectors.shape[1]
        if create:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("row", DataType.INT64, is_primary=True)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=width)
            index = client.prepare_index_params()
            index.add_index(field_name="vector", index_type="FLAT", metric_type="IP")
            client.create_collection(
                self.collection,
                schema=schema,
                index_params=index,
                consistency_level="Strong",  # what was written is found at once, by any client
                timeout=_PATIENCE,
            )
        size = max(1, _INSERTED // width)
        logger.info("%s: %d vectors of %d into %s", self._address, self._rows - there, self._rows, self.collection)
        for start in tqdm(range(there, self._rows, size), desc="insert", unit=" blocks", delay=2):
            rows = range(start, min(start + size, self._rows))
            client.upsert(self.collection, [{"row": i, "vector": vectors[first[i]]} for i in rows], timeout=_PATIENCE)
        client.flush(self.collection, timeout=_PATIENCE)  # sealed, rows are searched hundreds of times faster

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            from pymilvus import MilvusException
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"got the index milvus:{self._address} and no pymilvus ({error}); pip install 'slant[milvus]'"
            ) from None
        try:
            yield
        except MilvusException as error:
            raise ConnectionError(
                f"{self._address}: Milvus did not answer as wanted ({error.message}); is the server up, is {TOKEN} "
                "set if it asks for one, and does no other process have the file open?"
            ) from None


def check_address(address: str) -> None:
    """Refuse what is neither a file for Milvus Lite nor the address of a server.

    Raises:
        ValueError: Saying which.
    """
    url = re.fullmatch(r"https?://[^/@]+(/.*)?", address)
    if "@" in address and "://" in address:
        raise ValueError(
            f"got a Milvus address with a user in it, wanted http://HOST:PORT; put user:password into {TOKEN}"
        )
    if url is None and (not address.endswith(".db") or "://" in address):
        raise ValueError(f"got the Milvus address {address!r}, wanted a file PATH.db or http://HOST:PORT")
    if url is None and not Path(address).absolute().parent.is_dir():
        raise ValueError(f"got the Milvus file {address!r}, wanted a path in a folder that exists; make the folder")


def _connect(address: str) -> MilvusClient:
    from pymilvus import MilvusClient

    # By default an idle client pings every ten seconds, for which Milvus Lite hangs up on it.
    quiet = {"grpc.keepalive_permit_without_calls": 0}
    return MilvusClient(address, token=os.environ.get(TOKEN, ""), timeout=_PATIENCE, grpc_options=quiet)
