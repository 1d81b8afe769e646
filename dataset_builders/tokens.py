"""What a token or a private key looks like: never logged, never published."""

from __future__ import annotations

from typing import Final

SECRET: Final = (
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""A pattern: tokens of the Hub, of OpenAI and those that copy its shape, of AWS, of GitHub; and private keys."""
