"""How tests look at refusals: by the type, the code, and what the text quotes from the program. Sentences may change."""

import re
from contextlib import contextmanager

import pytest


def names(error, *named):
    """Whether a message, with its notes and its help, has all of these names and numbers as words of their own."""
    text = "\n".join([error.message, *error.notes, error.help or ""])
    return all(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text) for n in named)


@contextmanager
def refused(kind, code, *named):
    """What is done here raises an exception of this type with this code, which names all of these: gives what is known of it, as
    `pytest.raises` does. The code of an exception that no entry explains is None."""
    with pytest.raises(kind) as e:
        yield e
    assert e.value.code == code, f"not {code}, but {e.value.code}: {e.value}"
    assert names(e.value, *named), f"not all of {named} in: {e.value}"
