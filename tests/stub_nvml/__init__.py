"""A libnvidia-ml.so.1 in C that answers from a script file (see stub.h), and the cards it plays."""

from .build import build, environment
from .cards import Card, card, write_script

__all__ = ["Card", "build", "card", "environment", "write_script"]
