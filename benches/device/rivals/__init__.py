"""What a row compares with.

`row_NAME(k)` gives, for the kernels `k` of a row: the array that they fill, what it must hold, the rivals (a name and a call
each), and how many bytes must move and how many operations there are (0: not counted).
"""

from . import algebra, basic, stencils


def of(row):
    """The function for a row."""
    for module in (basic, stencils, algebra):
        if hasattr(module, "row_" + row):
            return getattr(module, "row_" + row)
    raise KeyError(row)
