"""What a function of the user's own is for, as far as its name tells: a guess from its words.

Names come with their class from Python 3.11 on (`Trainer.validate`), and alone before. A name says
what a function is for by its verb (`train_batch` trains, `get_batch` gets), so nouns count only
where the verb does not speak against them.
"""

from __future__ import annotations

import re

# A comprehension or lambda is part of the function around it
_INSIDE = re.compile(r"(\.<locals>)?\.?<(listcomp|dictcomp|setcomp|genexpr|lambda)>$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_CHECKPOINT = re.compile(
    r"^_*(save|checkpoint|ckpt)$|(save|write|store|dump|make)\w*(checkpoint|ckpt)"
    r"|save_(model|state|weights)|(checkpoint|ckpt)_*(save|model|state)", re.I
)  # fmt: skip
_EVALUATION = re.compile(r"^_*(eval|validat|test|compute_metrics)", re.I)
_MODEL = re.compile(r"^(forward|backward|__call__|_call_impl|loss_fn|\w*_loss|criterion)$")
_LOGGING = re.compile(
    r"^_*(log|write_summary|report|print)(_|$)|log_metr|add_(scalar|histogram|image)"
    r"|(write|dump|append|record)_(metrics?|history|losses|stats|scalars?)$", re.I
)  # fmt: skip
_GETS = re.compile(r"^__(getitems?|next|iter)__$")

# The step's own verbs: what follows is worked on, not made
_WORKS = frozenset([
    "train", "step", "update", "fit", "optimize", "optimise", "optim", "run", "process",
    "compute", "calc", "calculate", "apply", "learn", "predict", "infer", "infers", "play",
    "act", "record", "track", "upload", "unload", "send", "write", "plot", "compile"
])  # fmt: skip
# Nouns of the model's own work
_OF_THE_MODEL = frozenset([
    "loss", "losses", "grad", "grads", "gradient", "gradients", "forward", "backward",
    "optimizer", "norm", "attention", "discriminator", "critic", "policy", "actor", "logits",
    "embedding", "embed"
])  # fmt: skip
_INPUT = re.compile(
    r"^(load\w*|batch\w*|minibatch\w*|read(s|er|ers|ing)?|decod(e|es|ing)|fetch\w*|sampl(e|es|ing)"
    r"|augment\w*|tokeni\w+|collat\w+|preprocess\w*|transforms?|datasets?|data|getitem|crop\w*"
    r"|resiz\w+|pars(e|er|es|ing)|generator|stream\w*|shards?|download\w*|prepar(e|es|ing)"
    r"|examples?|images?|records?|produc\w+|feed|feeder|feeding|simulat\w+|synth\w*|jpe?g|png"
    r"|episodes?|rollouts?|corpus|dataloader)$"
)
# The model's own sampling: sample_token, beam_decode, next_action
_GENERATES = frozenset(["sample", "decode", "next"])
_GENERATED = frozenset(
    ["token", "tokens", "greedy", "beam", "sequence", "noise", "latent", "latents", "action",
     "state", "step"]
)  # fmt: skip
_INPUT_CLASS = frozenset(["dataset", "datasets", "loader", "reader", "tokenizer", "collator"])


def own_name(function: str) -> str:
    """The name without its class and without the function around it."""
    return _INSIDE.sub("", function).rpartition(".")[2]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def purpose(function: str) -> str | None:
    """checkpoint, evaluation, model, logging or input; None where the name does not tell."""
    name = own_name(function)
    for category, pattern in (
        ("checkpoint", _CHECKPOINT), ("evaluation", _EVALUATION), ("model", _MODEL),
        ("logging", _LOGGING), ("input", _GETS),
    ):  # fmt: skip
        if pattern.search(name):
            return category
    return "input" if _makes_input(name, _INSIDE.sub("", function)) else None


def _makes_input(name: str, function: str) -> bool:
    words = _words(name)
    if not words or words[0] in _WORKS or not _OF_THE_MODEL.isdisjoint(words):
        return False
    if not _GENERATES.isdisjoint(words) and not _GENERATED.isdisjoint(words):
        return False
    if words[0] == "next" and len(words) == 2:  # next_batch, next_pair
        return True
    if any(_INPUT.match(word) for word in words):
        return True
    of = function.rpartition(".")[0].rpartition(".")[2]
    return not _INPUT_CLASS.isdisjoint(_words(of))
