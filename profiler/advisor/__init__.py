"""What another accelerator would do for a run: operators projected, priced, ranked."""

from .advice import Question, advise
from .basis import Basis, read
from .candidates import Advice, Candidate

__all__ = ["Advice", "Basis", "Candidate", "Question", "advise", "read"]
