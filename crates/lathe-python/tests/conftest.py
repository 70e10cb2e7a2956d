"""Every test run has a cache and a store of its own."""

import os
import tempfile

_FOLDER = tempfile.mkdtemp(prefix="lathe-tests-")
os.environ.setdefault("LATHE_CACHE", os.path.join(_FOLDER, "cache"))
os.environ.setdefault("LATHE_STORE", os.path.join(_FOLDER, "results.sqlite"))

# What is installed on request has targets of its own: `make test-torch`, `make test-types`.
collect_ignore = [
    *([] if os.environ.get("LATHE_TORCH") else ["test_programs_torch.py", "test_torch.py"]),
    *([] if os.environ.get("LATHE_PYRIGHT") else ["test_pyright.py"]),
]
