"""What another accelerator would do for a run: operators projected, priced, ranked."""

from .advice import Advice, Candidate, Question, advise
from .basis import Basis, read

__all__ = ["Advice", "Basis", "Candidate", "Question", "advise", "read"]
