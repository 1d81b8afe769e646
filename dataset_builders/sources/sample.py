"""The embedded sample: 180 claims in 15 domains, written for this project (CC BY 4.0)."""

from __future__ import annotations

from importlib.resources import files

import yaml

from dataset_builders.instructions import STANCES
from dataset_builders.schema import STYLES, Argument, Claim, Inversion, Relation
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData

NAME = "sample"
LICENCE = "cc-by-4.0"


def read() -> StanceData:
    """The sample with its splits and inversions.

    Argument ids are ``{claim_id}-{s|a}{e|n}{1|2}``, for instance ``health-01-an2``, and inversions add ``-inv``.
    """
    claims: list[Claim] = []
    arguments: list[Argument] = []
    relations: list[Relation] = []
    inversions: list[Inversion] = []
    folder = files("dataset_builders") / "sample" / "stance"
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name):
        page = yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for entry in page["claims"]:
            claim = Claim(
                claim_id=entry["id"],
                claim=entry["claim"],
                domain=page["domain"],
                veracity=entry["veracity"],
                group_id=entry["id"],
                split=entry["split"],
                source=NAME,
                licence=LICENCE,
            )
            claims.append(claim)
            for stance in STANCES:
                for style in STYLES:
                    for number, item in enumerate(entry[stance][style], start=1):
                        argument_id = f"{claim.claim_id}-{stance[0]}{style[0]}{number}"
                        arguments.append(Argument(argument_id, item["text"], style, NAME, LICENCE))
                        relations.append(Relation(argument_id, claim.claim_id, stance))
                        if "inverted" in item:
                            inversions.append(
                                Inversion(
                                    inversion_id=f"{argument_id}-inv",
                                    claim_id=claim.claim_id,
                                    claim=claim.claim,
                                    argument_id=argument_id,
                                    original=item["text"],
                                    original_stance=stance,
                                    style=style,
                                    inverted=item["inverted"],
                                    generator="authored",
                                    prompt_sha256=None,
                                    source=NAME,
                                    licence=LICENCE,
                                )
                            )
    return merge(NAME, claims, arguments, relations, inversions)
