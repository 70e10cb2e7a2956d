"""The measuring process of a kernel that is tuned: it is started by the tuner, and ends with it."""

from . import _lathe

_lathe.work()
