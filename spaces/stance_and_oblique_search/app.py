"""The Space's entry: everything is in ``slant_space`` beside it."""

from __future__ import annotations

from slant_space.interface import main

if __name__ == "__main__":
    main()
