"""The Space's own modules, beside its thin ``app.py``."""

from __future__ import annotations
