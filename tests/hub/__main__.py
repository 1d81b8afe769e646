"""A loopback Hub that stands alone: ``python -m tests.hub --port 8123 --state folder``."""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path

from tests.hub.accounts import ORGANISATIONS, TOKENS
from tests.hub.server import LoopbackHub


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hub", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--state", type=Path, help="folder that keeps the repositories between two starts")
    parser.add_argument("--org", action="append", default=[], help="an organisation of the user; may be repeated")
    options = parser.parse_args()
    organisations = (*ORGANISATIONS, *options.org)
    with LoopbackHub(options.state, port=options.port, organisations=organisations) as hub:
        print(f"export HF_ENDPOINT={hub.endpoint} HF_TOKEN={TOKENS.write}", flush=True)  # noqa: T201
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(json.dumps(hub.log.summary(), indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
